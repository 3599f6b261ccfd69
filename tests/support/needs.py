"""What a test may need beyond Python packages of the development set, and what to say without it.

A missing thing skips a test with one line that says how to get it; in CI it fails.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import referee

_ROOT = Path(__file__).resolve().parents[2]
_INTERPRETERS = {
    "tflm": "no TFLite Micro (pip install tflite-micro; CPython 3.11 and later, Linux)",
    "litert": "no LiteRT (pip install ai-edge-litert; CPython 3.11 and later)",
    "tflite-runtime": "no tflite-runtime (pip install tflite-runtime==2.14.0; CPython up to 3.11)",
}


def zoo_folder() -> Path:
    """The zoo of pre-trained models, whether or not it is there."""
    chosen = os.environ.get("TINYTRAIN_ZOO")
    return Path(chosen) if chosen else _ROOT.parent / "shared" / "zoo"


def _missing_zoo() -> str:
    found = (zoo_folder() / "manifest.json").is_file()
    return "" if found else f"no model zoo in {zoo_folder()} (set TINYTRAIN_ZOO)"


def _missing_arm() -> str:
    if shutil.which("arm-none-eabi-gcc") is None:
        return "no arm-none-eabi-gcc (apt install gcc-arm-none-eabi libnewlib-arm-none-eabi)"
    found = importlib.util.find_spec("platformio") is not None
    return "" if found else "no PlatformIO (pip install platformio)"


def _missing_qemu() -> str:
    found = shutil.which("qemu-system-arm") is not None
    return "" if found else "no qemu-system-arm (apt install qemu-system-arm)"


def _missing_cxx() -> str:
    return "" if shutil.which("g++") else "no g++ (apt install g++)"


def _missing_interpreter(*names: str) -> str:
    installed = referee.available()
    if not names:
        return "" if installed else "no TFLite interpreter (pip install tinytrain[verify])"
    return next((_INTERPRETERS[name] for name in names if name not in installed), "")


NEEDS: dict[str, tuple[str, Callable[..., str]]] = {
    "zoo": ("needs the zoo of pre-trained models", _missing_zoo),
    "arm": ("needs the ARM compiler and PlatformIO", _missing_arm),
    "qemu": ("needs QEMU for ARM", _missing_qemu),
    "cxx": ("needs a C++ compiler for this machine", _missing_cxx),
    "interpreter": ("needs a TFLite interpreter, any or those named", _missing_interpreter),
}
"""Mark -> what it means, and a function of the mark's arguments that says what is missing."""


def need(name: str, *arguments: str) -> None:
    """Go on only if it is there; what the mark of that name does."""
    reason = NEEDS[name][1](*arguments)
    if reason and os.environ.get("CI") == "true":
        pytest.fail(f"nothing may be skipped in CI: {reason}", pytrace=False)
    if reason:
        pytest.skip(reason)
