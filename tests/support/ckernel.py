"""Run kernels in C as their definitions bind them, and compare every byte with NumPy.

In: cases, each an operator with its input values and expected output values. Out: nothing, or a
failed assertion. One small C program holds all cases; it is compiled twice: optimized, with guard
bytes round every tensor, and with the address and undefined-behaviour sanitizers, where every
tensor is a heap block of its own. With TINYTRAIN_KERNELS_ON=<board> it runs in the emulator,
with the kernels for that board. Must not know: operators, code generation.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.support.kernels_on_board import DRIVER, run_on
from tests.support.tflite_writer import Array
from tinytrain.errors import ToolError
from tinytrain.ir import Graph, Op
from tinytrain.numeric.random import mix32
from tinytrain.ops.base import KernelCall, Param, Step, definition
from tinytrain.toolchain.host import STRICT_FLAGS, compile_program
from tinytrain.toolchain.host_library import with_simd

_FIRMWARE = Path(__file__).resolve().parents[2] / "firmware"
KERNELS = _FIRMWARE / "lib" / "tt_kernels" / "src"
SIMD = _FIRMWARE / "ports" / "host" / "simd"
_SHARED = tuple(
    KERNELS / f"tt_{part}.c" for part in ("update", "update_reach2", "update_row", "optimizer")
)
GUARD_BYTES = 64
_C_TYPES = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "float32": "float",
}
ROW_KERNELS = ("tt_conv2d_s8", "tt_depthwise_conv2d_s8", "tt_add_s8")
_GOLDEN = 0x9E3779B9

_DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILL 0xA5
typedef struct block { unsigned char *start; unsigned char *data; size_t size; } block;

static void stop(const char *message)
{
    fprintf(stderr, "%s\\n", message);
    exit(3);
}

static block read_block(void)
{
    uint32_t size = 0;
    block b;
    if (fread(&size, sizeof size, 1, stdin) != 1) stop("no size");
    b.size = size;
    b.start = malloc(b.size + 2u * GUARD);
    if (b.start == NULL) stop("no memory");
    memset(b.start, FILL, b.size + 2u * GUARD);
    b.data = b.start + GUARD;
    if (size > 0u && fread(b.data, size, 1, stdin) != 1) stop("no data");
    return b;
}

static void write_block(block b)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (b.start[i] != FILL || b.data[b.size + i] != FILL) stop("guard bytes overwritten");
    }
    if (b.size > 0u && fwrite(b.data, b.size, 1, stdout) != 1) stop("cannot write");
    free(b.start);
}

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        block blocks[64];
        void *pointers[64];
        for (size_t k = 0; k < cases[i].tensors; k++) {
            blocks[k] = read_block();
            pointers[k] = blocks[k].data;
        }
        cases[i].run(pointers);
        for (size_t k = 0; k < cases[i].tensors; k++) write_block(blocks[k]);
    }
    return 0;
}
"""


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        op, graph: what runs.
        before: input values by tensor name.
        after: expected values of the outputs by tensor name.
        step: the training step.
        shared: output -> input whose memory it takes.
    """

    op: Op
    graph: Graph
    before: Mapping[str, Array]
    after: Mapping[str, Array]
    step: Step = field(default_factory=Step)
    shared: Mapping[str, str] = field(default_factory=dict)

    @property
    def call(self) -> KernelCall:
        return definition(self.op).call(self.op, self.graph)

    def memory(self, name: str) -> str:
        """The tensor in whose memory this one lies."""
        return self.shared.get(name, name)

    def blocks(self) -> dict[str, bytes]:
        """Memory block -> bytes before the call; outputs are filled with a pattern."""
        found: dict[str, bytes] = {}
        for name in (*self.op.inputs, *self.op.outputs):
            if not name or self.memory(name) in found:
                continue
            if name in self.before:
                found[name] = self.before[name].tobytes()
            else:
                found[name] = b"\x5a" * self.graph[name].nbytes
        if self.call.scratch_bytes:
            found["scratch"] = b"\x5a" * self.call.scratch_bytes
        return found


def in_place_cases(case: Case) -> list[Case]:
    """The same case with each output over an input, wherever the definition allows it."""
    found = []
    for source, target in definition(case.op).in_place_pairs(case.op, case.graph):
        name, output = case.op.inputs[source], case.op.outputs[target]
        if not name or case.graph[output].nbytes > case.graph[name].nbytes:
            continue
        if list(case.op.inputs).count(name) == 1:
            shared = {output: name}
            found.append(Case(case.op, case.graph, case.before, case.after, case.step, shared))
    return found


def assert_kernels(cases: Iterable[Case]) -> None:
    """Every output byte is NumPy's; inputs, guards and the sanitizers' rules are respected."""
    listed = list(cases)
    listed += [shared for case in listed for shared in in_place_cases(case)]
    assert listed
    board = os.environ.get("TINYTRAIN_KERNELS_ON", "")
    if board:
        _check_on(listed, board)
        return
    _check(listed, sanitize=False)
    try:
        _check(listed, sanitize=True)
    except ToolError as error:
        if error.code != "missing-sanitizers":
            raise


def _check(cases: Sequence[Case], *, sanitize: bool) -> None:
    given = [case.blocks() for case in cases]
    data = b"".join(len(b).to_bytes(4, "little") + b for blocks in given for b in blocks.values())
    done = subprocess.run([_compile(cases, sanitize)], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    _compare_all(cases, given, done.stdout)


def _check_on(cases: Sequence[Case], board: str) -> None:
    """The same in the emulator, with the kernels that the board's compiler chooses."""
    given = [case.blocks() for case in cases]
    data = b"".join(len(b).to_bytes(4, "little") + b for blocks in given for b in blocks.values())
    _compare_all(cases, given, run_on(board, _source(cases, GUARD_BYTES, DRIVER), data))


def _compare_all(
    cases: Sequence[Case], given: Sequence[Mapping[str, bytes]], output: bytes
) -> None:
    position = 0
    for case, blocks in zip(cases, given, strict=True):
        results = {}
        for name, before in blocks.items():
            results[name] = output[position : position + len(before)]
            position += len(before)
        _compare(case, blocks, results)
    assert position == len(output)


def _compare(case: Case, before: Mapping[str, bytes], results: Mapping[str, bytes]) -> None:
    label = f"{case.call.kernel} {dict(case.op.attrs)} {dict(case.shared)}"
    for name in case.op.outputs:
        wanted = case.after[name]
        stored = results[case.memory(name)][: wanted.nbytes]
        got = np.frombuffer(stored, wanted.dtype).reshape(wanted.shape)
        wrong = np.flatnonzero(got.reshape(-1) != wanted.reshape(-1))
        assert got.tobytes() == wanted.tobytes(), (
            f"{label}: {name}: {wrong.size} of {wanted.size} differ, first at {wrong[:1]}: "
            f"{got.reshape(-1)[wrong[:4]]} is not {wanted.reshape(-1)[wrong[:4]]}"
        )
    changed = {case.memory(name) for name in case.op.outputs} | {"scratch"}
    for name in before:
        assert name in changed or results[name] == before[name], f"{label}: {name} was written"


def _compile(cases: Sequence[Case], sanitize: bool) -> Path:
    kernels = sorted({kernel for case in cases for kernel in _kernels(case)})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.c"
        path.write_text(_source(cases, 0 if sanitize else GUARD_BYTES))
        sources = [*(KERNELS / f"{kernel}.c" for kernel in kernels), *_SHARED]
        if not sanitize or os.environ.get("TINYTRAIN_SANITIZE_SIMD"):
            sources = with_simd(sources)  # what the simulator runs
        return compile_program(
            [path, *sources],
            include_dirs=[KERNELS, SIMD],
            # gcc warns of what the sanitizers insert
            flags=("-O0",) if sanitize else STRICT_FLAGS,
            sanitize=sanitize,
        )


def _kernels(case: Case) -> set[str]:
    """The kernel of a case, and those that it calls."""
    return {case.call.kernel, *(ROW_KERNELS if case.op.body else ())}


def _source(cases: Sequence[Case], guard: int, driver: str = "") -> str:
    parts = [
        '#include "tt_kernels.h"',
        '#include "tt_random.h"',
        f"static const size_t GUARD = {guard};",
    ]
    numbers: dict[str, int] = {}
    rows = []
    for case in cases:  # equal calls with other data share their function
        body = _body(case)
        number = numbers.setdefault(body, len(numbers))
        rows.append(f"{{call_{number}, {len(case.blocks())}u}}")
    parts += [f"static void call_{i}(void *const *t)\n{{\n{b}\n}}" for b, i in numbers.items()]
    parts.append("static const struct { void (*run)(void *const *); size_t tensors; } cases[] = {")
    return "\n".join([*parts, ",\n".join(rows), "};", driver or _DRIVER])


def _body(case: Case) -> str:
    call, step = case.call, case.step
    position = {name: i for i, name in enumerate(case.blocks())}
    tables: list[str] = []
    params = _initializer(call.params, tables)
    fields = [f".{key} = t[{position[case.memory(name)]}]" for key, name in call.io.items() if name]
    if call.scratch_bytes:
        fields.append(f".scratch = t[{position['scratch']}]")
    key = mix32((step.seed + step.index * _GOLDEN) & 0xFFFFFFFF)
    moment = f"{{{key}u, {_literal(float(step.learning_rate))}, {str(step.apply).lower()}, NULL}}"
    lines = [
        *tables,
        f"    static const {call.kernel}_params params = {params};",
        f"    const {call.kernel}_io io = {{{', '.join(fields)}}};",
    ]
    if call.takes_step:
        lines += [f"    const tt_step step = {moment};", f"    {call.kernel}(&params, &io, &step);"]
    else:
        lines.append(f"    {call.kernel}(&params, &io);")
    return "\n".join(lines)


def _initializer(params: Mapping[str, Param], tables: list[str]) -> str:
    fields = []
    for key, value in params.items():
        if isinstance(value, np.ndarray):
            name = f"table_{len(tables)}"
            items = ", ".join(_literal(v.item()) for v in value.reshape(-1))
            tables.append(f"    static const {_C_TYPES[value.dtype.name]} {name}[] = {{{items}}};")
            fields.append(f".{key} = {name}")
        elif isinstance(value, Mapping):
            fields.append(f".{key} = {_initializer(value, tables)}")
        else:
            fields.append(f".{key} = {_literal(value)}")
    return f"{{{', '.join(fields)}}}"


def _literal(value: int | float | str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{float(np.float32(value)).hex()}f"
    if value == -(2**31):
        return "INT32_MIN"
    return f"{int(value)}u" if value > 2**31 - 1 else str(int(value))
