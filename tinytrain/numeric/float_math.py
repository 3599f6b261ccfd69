"""exp and log in float32 with a fixed sequence of operations, the same in NumPy and in C.

libm's results differ between newlib, glibc and NumPy in the last bit; a run must end with the same
bytes everywhere, so the loss uses these. Relative error below 3e-7. C: `tt_float_math.h`.
Must not know tensors or operators.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = np.float32
Float32Array = npt.NDArray[np.float32]

_LOG2E = F32(1.44269504)
_LN2_HIGH = F32(0.693359375)
_LN2_LOW = F32(-2.12194440e-4)
_EXP_COEFFICIENTS = tuple(F32(c) for c in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0))
_LOG_COEFFICIENTS = tuple(F32(c) for c in (1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0))
_SQRT2 = F32(1.41421354)
EXP_MIN = F32(-87.0)


def exp_negative(x: Float32Array) -> Float32Array:
    """e**x for x <= 0, elementwise; 0 below -87."""
    x = x.astype(np.float32)
    bounded = np.maximum(x, EXP_MIN)  # what is below is 0 in the end, and may not fit int32
    n = (bounded * _LOG2E - F32(0.5)).astype(np.int32)  # truncation: nearest, as x <= 0
    whole = n.astype(np.float32)
    r = (bounded - whole * _LN2_HIGH) - whole * _LN2_LOW
    y = np.full_like(r, _EXP_COEFFICIENTS[0])
    for coefficient in _EXP_COEFFICIENTS[1:]:
        y = y * r + coefficient
    power = ((np.maximum(n, -126) + 127) << 23).astype(np.int32).view(np.float32)
    return np.where(x < EXP_MIN, F32(0.0), y * power).astype(np.float32)


def log(x: np.float32) -> np.float32:
    """Natural logarithm of a positive normal float32."""
    bits = int(np.array([x], np.float32).view(np.int32)[0])
    exponent = (bits >> 23) - 127
    mantissa = np.array([(bits & 0x7FFFFF) | (127 << 23)], np.int32).view(np.float32)[0]
    if mantissa > _SQRT2:  # a short series needs a small argument, and log(1 - e) no cancellation
        mantissa, exponent = F32(mantissa * F32(0.5)), exponent + 1
    t = F32(F32(mantissa - F32(1.0)) / F32(mantissa + F32(1.0)))
    t2 = F32(t * t)
    series = _LOG_COEFFICIENTS[0]
    for coefficient in _LOG_COEFFICIENTS[1:]:
        series = F32(F32(series * t2) + coefficient)
    tail = F32(F32(F32(2.0) * t) * series)
    e = F32(exponent)
    return F32(F32(F32(e * _LN2_HIGH) + F32(e * _LN2_LOW)) + tail)
