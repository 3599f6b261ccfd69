"""Sizes out of an ELF file: what is not one is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tinytrain.errors import ToolError
from tinytrain.toolchain.elf import read_firmware_size

from .conftest import BuildProbe


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(100), bytes(64)])
def test_not_a_firmware(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "firmware.elf"
    path.write_bytes(content)
    with pytest.raises(ToolError) as caught:
        read_firmware_size(path)
    assert caught.value.code == "bad-elf"


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ToolError):
        read_firmware_size(tmp_path / "none.elf")


@pytest.mark.arm
def test_damaged_file_is_read_or_refused(build_probe: BuildProbe, tmp_path: Path) -> None:
    content = build_probe("mps2-an386").elf.read_bytes()
    dice = random.Random(7)
    path = tmp_path / "firmware.elf"
    for _ in range(100):
        damaged = bytearray(content[: dice.randrange(len(content))])
        for _ in range(8):
            if damaged:
                damaged[dice.randrange(min(len(damaged), 64))] = dice.randrange(256)
        path.write_bytes(damaged)
        try:
            read_firmware_size(path)
        except ToolError:
            continue
