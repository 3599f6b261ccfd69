"""exp and log against NumPy's in double precision."""

from __future__ import annotations

import warnings

import numpy as np

from tinytrain.numeric.float_math import exp_negative, log

F32 = np.float32


def test_exp() -> None:
    x = np.concatenate([-np.logspace(-8, np.log10(87), 60_000), -np.linspace(0, 87, 60_000)])
    x = x.astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    error = np.abs(exp_negative(x) - exact) / exact
    assert error.max() < 3e-7


def test_exp_at_the_ends() -> None:
    x = np.array([0.0, -0.0, -87.0, -87.00001, -88.0, -1e4, -1e12, -3e38], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = exp_negative(x)
    assert y.dtype == np.float32
    assert y[:2].tolist() == [1.0, 1.0]
    assert y[2] > 0
    assert not y[3:].any()


def test_exp_never_rises_where_x_falls() -> None:
    x = -np.linspace(0, 20, 200_000).astype(np.float32)
    y = exp_negative(x).astype(np.float64)
    assert np.all(np.diff(y) <= y[:-1] * 1.2e-7)


def test_log() -> None:
    values = np.logspace(-37, 37, 4000).astype(np.float32)
    exact = np.log(values.astype(np.float64))
    found = np.array([log(v) for v in values], np.float64)
    assert np.all(np.abs(found - exact) <= 3e-7 * np.abs(exact))


def test_log_of_scores() -> None:
    """Scores lie in (0, 1]; the loss of a perfect one is 0."""
    values = np.linspace(1e-3, 1, 4000).astype(np.float32)
    exact = np.log(values.astype(np.float64))
    found = np.array([log(v) for v in values], np.float64)
    assert np.all(np.abs(found - exact) <= 3e-7 * np.abs(exact))
    assert log(F32(1.0)) == 0.0
    assert log(F32(0.5)) == F32(np.log(0.5))
