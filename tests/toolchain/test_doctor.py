"""The doctor reports what is there and says how to get the rest; it never fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinytrain.toolchain import platformio
from tinytrain.toolchain.doctor import diagnose

NAMES = [
    "Python",
    "C compiler",
    "PlatformIO",
    "SCons",
    "arm-none-eabi-gcc",
    "newlib-nano",
    "qemu-system-arm",
]


@pytest.mark.arm
@pytest.mark.qemu
def test_everything_is_found() -> None:
    tools = diagnose()
    assert [tool.name for tool in tools] == NAMES
    for tool in tools:
        assert tool.found and tool.version and tool.path and tool.why
        assert tool.how == ""


def test_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(platformio, "installed_scons", lambda: None)
    tools = diagnose()
    assert [tool.name for tool in tools] == NAMES
    for tool in tools[1:]:
        assert not tool.found
        assert (tool.version, tool.path) == ("", "")
        assert "install" in tool.how
