"""Run a program of kernel cases in the emulator: all kernels, as a board's compiler chooses them.

In: C source with the cases, the bytes of their tensors. Out: the bytes after the calls. Must not
know what the kernels compute.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import jinja2

from tinytrain.boards import Board, Region, get_board
from tinytrain.resources import data_dir
from tinytrain.toolchain.host import STRICT_FLAGS
from tinytrain.toolchain.qemu import run_firmware

RAM_BYTES = 0x40_0000
_FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-ffunction-sections")
_TOOL = "arm-none-eabi-gcc"

DRIVER = """
#include <string.h>
#include "tt_port.h"

#define FILL 0xA5
static unsigned char memory[MEMORY_BYTES];
static struct { unsigned char *data; uint32_t size; } blocks[64];

static void read_all(int32_t file, void *to, uint32_t bytes)
{
    if (tt_port_read(file, to, bytes) != (int32_t)bytes) tt_port_exit(4);
}

int main(void)
{
    static char line[64];
    if (tt_port_command_line(line, sizeof line) < 0) return 2;
    const int32_t in = tt_port_open("in.bin", TT_PORT_OPEN_READ);
    const int32_t out = tt_port_open("out.bin", TT_PORT_OPEN_WRITE);
    if (in < 0 || out < 0) return 3;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        void *pointers[64];
        unsigned char *end = memory;
        for (size_t k = 0; k < cases[i].tensors; k++) {
            uint32_t size;
            read_all(in, &size, sizeof size);
            memset(end, FILL, GUARD);
            blocks[k].data = end + GUARD;
            blocks[k].size = size;
            if (size > 0u) read_all(in, blocks[k].data, size);
            end += GUARD + ((size + 3u) & ~3u);
            memset(blocks[k].data + size, FILL, GUARD + 3u);
            pointers[k] = blocks[k].data;
        }
        memset(end, FILL, GUARD);
        cases[i].run(pointers);
        for (size_t k = 0; k < cases[i].tensors; k++) {
            const unsigned char *data = blocks[k].data;
            for (size_t g = 0; g < GUARD; g++) {
                if (*(data - 1 - g) != FILL) return 5;
            }
            if (data[blocks[k].size] != FILL) return 5;
            if (blocks[k].size > 0u &&
                tt_port_write(out, data, blocks[k].size) != (int32_t)blocks[k].size) return 6;
        }
        for (size_t g = 0; g < GUARD; g++) {
            if (end[g] != FILL) return 5;
        }
    }
    return tt_port_close(out) == 0 ? 0 : 6;
}
"""


def _roomy(name: str) -> Board:
    """The board with as much of RAM_BYTES as the emulator has."""
    board = get_board(name)
    assert board.emulator is not None
    return replace(
        board,
        ram=Region(board.ram.origin, min(RAM_BYTES, board.emulator.ram_bytes)),
        flash=Region(board.flash.origin, min(RAM_BYTES, board.emulator.flash_bytes)),
    )


@cache
def _objects(name: str) -> tuple[tempfile.TemporaryDirectory[str], tuple[Path, ...]]:
    """All kernels and the port, compiled once; the folder lives as long as the process."""
    board = _roomy(name)
    folder = tempfile.TemporaryDirectory(prefix="tinytrain-kernels-")
    firmware = data_dir("firmware")
    port = sorted((firmware / "ports" / "qemu").glob("*.c"))
    kernels = sorted((firmware / "lib" / "tt_kernels" / "src").glob("*.c"))
    defines = [f"-D{d}" for d in board.defines]
    for sources, flags in ((port, ()), (kernels, STRICT_FLAGS)):
        command = [_TOOL, *board.arch_flags, *_FLAGS, *flags, *defines, "-c", *map(str, sources)]
        subprocess.run(command, cwd=folder.name, check=True)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("templates")), undefined=jinja2.StrictUndefined
    )
    script = environment.get_template("link.ld.j2").render(board=board, stack_bytes=16384)
    (Path(folder.name) / "board.ld").write_text(script)
    return folder, tuple(sorted(Path(folder.name).glob("*.o")))


def run_on(name: str, source: str, data: bytes) -> bytes:
    """What `source`, a program with `DRIVER`, writes when it is given `data`."""
    board = _roomy(name)
    kept, objects = _objects(name)
    firmware = data_dir("firmware")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "in.bin").write_bytes(data)
        (folder / "cases.c").write_text(source)
        command = [
            _TOOL, *board.arch_flags, *_FLAGS, *(f"-D{d}" for d in board.defines),
            f"-DMEMORY_BYTES={board.ram.bytes // 4 * 3}",
            f"-I{firmware / 'lib' / 'tt_kernels' / 'src'}", f"-I{firmware / 'ports' / 'qemu'}",
            "-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections",
            f"-T{Path(kept.name) / 'board.ld'}", "-o", "cases.elf", "cases.c",
            *map(str, objects), "-lm", "-lc", "-lgcc",
        ]  # fmt: skip
        subprocess.run(command, cwd=folder, check=True)
        done = run_firmware(folder / "cases.elf", board, arguments=("cases",), working_dir=folder)
        assert done.exit_code == 0, f"exit {done.exit_code}: {done.stdout}{done.stderr}"
        return (folder / "out.bin").read_bytes()
