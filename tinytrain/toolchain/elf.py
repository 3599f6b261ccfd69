"""What a linked firmware takes of each memory, read from its ELF file.

In: a 32-bit little-endian ELF file. Out: sizes in bytes. Must not know boards.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from tinytrain.errors import ToolError

_HEADER = struct.Struct("<16s2H5I6H")
_SECTION = struct.Struct("<10I")
_NOBITS = 8
_WRITE = 1
_ALLOC = 2
_EXECUTE = 4
_STACK = ".stack"
_CODE = (".vectors", ".text")


@dataclass(frozen=True)
class FirmwareSize:
    """Sizes in bytes, by what the linker script places where.

    Attributes:
        text_bytes: code and constants, in flash.
        code_bytes: the part of it that is code: no weights, no tables.
        data_bytes: initialised variables: in RAM, and their first values in flash.
        bss_bytes: other variables, in RAM, without the stack.
        stack_bytes: what is set aside for the stack.
    """

    text_bytes: int
    data_bytes: int
    bss_bytes: int
    stack_bytes: int
    code_bytes: int = 0

    @property
    def flash_bytes(self) -> int:
        """All that must be flashed."""
        return self.text_bytes + self.data_bytes

    @property
    def ram_bytes(self) -> int:
        """All RAM that is set aside, the stack included."""
        return self.data_bytes + self.bss_bytes + self.stack_bytes


def read_firmware_size(elf: Path) -> FirmwareSize:
    """Add up the allocated sections of an ELF file.

    Raises:
        ToolError: the file cannot be read, or is not a 32-bit little-endian ELF file.
    """
    try:
        return _sum_sections(elf.read_bytes())
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise ToolError(
            "bad-elf", "toolchain", f"cannot read the firmware: {error}", where=str(elf)
        ) from error


def read_object_code_bytes(path: Path) -> int:
    """Bytes of code in an object file: all its executable sections.

    Raises:
        ToolError: as `read_firmware_size`.
    """
    try:
        return sum(size for _, _, flags, size in _sections(path.read_bytes())
                   if flags & _ALLOC and flags & _EXECUTE)  # fmt: skip
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise ToolError(
            "bad-elf", "toolchain", f"cannot read an object file: {error}", where=str(path)
        ) from error


def _sections(content: bytes) -> list[tuple[str, int, int, int]]:
    """(name, type, flags, size) of each section."""
    header = _HEADER.unpack_from(content)
    if header[0][:6] != b"\x7fELF\x01\x01":
        raise ValueError("not a 32-bit little-endian ELF file")
    table_offset, entry_bytes, count, names_index = header[6], header[11], header[12], header[13]
    table = [_SECTION.unpack_from(content, table_offset + entry_bytes * i) for i in range(count)]
    names_offset = table[names_index][4]
    found = []
    for name_at, kind, flags, _address, _offset, size, *_rest in table:
        start = names_offset + name_at
        name = content[start : content.index(b"\0", start)].decode("ascii")
        found.append((name, kind, flags, size))
    return found


def _sum_sections(content: bytes) -> FirmwareSize:
    text = data = bss = stack = code = 0
    for name, kind, flags, size in _sections(content):
        if not flags & _ALLOC:
            continue
        if name == _STACK:
            stack += size
        elif kind == _NOBITS:
            bss += size
        elif flags & _WRITE:
            data += size
        else:
            text += size
            code += size if name in _CODE else 0
    return FirmwareSize(text, data, bss, stack, code)
