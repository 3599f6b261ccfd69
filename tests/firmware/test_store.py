"""The state store: the power is cut everywhere, pages are torn, bits rot."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tinytrain.resources import data_dir
from tinytrain.toolchain.host import STRICT_FLAGS, compile_shared_library

HERE = Path(__file__).resolve().parent
LIBRARIES = data_dir("firmware") / "lib"
INCLUDES = [LIBRARIES / "tt_kernels" / "src", LIBRARIES / "tt_runtime" / "src"]


@pytest.fixture(scope="module")
def driver() -> ctypes.CDLL:
    sources = [HERE / "store_driver.c", *sorted(INCLUDES[1].glob("*.c"))]
    library = ctypes.CDLL(
        str(compile_shared_library(sources, include_dirs=INCLUDES, flags=STRICT_FLAGS))
    )
    pointer = ctypes.POINTER(ctypes.c_uint64)
    library.store_all_cuts.argtypes = [ctypes.c_uint32] * 3 + [pointer]
    library.store_schedules.argtypes = [ctypes.c_uint32] * 2 + [pointer]
    return library


@pytest.mark.parametrize(
    ("state_bytes", "erase_bytes", "program_bytes"),
    [
        (4, 64, 1),  # a state within one block
        (100, 64, 4),  # several blocks
        (360, 128, 8),  # STM32L4
        (700, 1024, 32),  # STM32H7
        (1500, 256, 256),  # RP2040: a unit is a page
        (20, 64, 4),  # exactly one block
    ],
)
def test_power_cut_at_every_write(
    driver: ctypes.CDLL, state_bytes: int, erase_bytes: int, program_bytes: int
) -> None:
    detail = ctypes.c_uint64(0)
    check = driver.store_all_cuts(state_bytes, erase_bytes, program_bytes, ctypes.byref(detail))
    assert (check, 0 if check == 0 else detail.value) == (0, 0)
    assert detail.value > 0


def test_ten_thousand_random_schedules(driver: ctypes.CDLL) -> None:
    detail = ctypes.c_uint64(0)
    check = driver.store_schedules(20261, 10_000, ctypes.byref(detail))
    assert check == 0, f"check {check} failed in schedule {detail.value}"
    assert detail.value == 9_999
