"""`.npz` data files: samples and labels for training, in the model's own input quantization.

In: a path and the input tensor. Out: `Dataset`, checked. Samples may be

- int8 at the model's input scale and zero point: taken as they are;
- float: real values in the units the model's input has; quantized to nearest, saturating;
- uint8: pixels; the real value is the number itself where the model's input reaches beyond 2,
  and the number over 255 otherwise.

A sample has the model's shape, or is a flat row of as many values; axes of size 1 may be left out
or added. Nothing else is reshaped: other orders of axes have the same number of values too.

Must not know how anything is trained.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.errors import InputError
from tinytrain.ir import Tensor
from tinytrain.numeric.quantize import dequantize, quantize

KEYS = ("x_train", "y_train", "x_test", "y_test")
_MAX_BYTES = 1 << 31

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples int8 [N, ...input shape without batch], labels int32 [N] or targets int8 [N, ...]."""

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array


def read_dataset(path: Path, tensor: Tensor, *, output: Tensor | None, classes: int) -> Dataset:
    """Read and check a data file.

    Args:
        path: `.npz` with the arrays x_train, y_train, x_test, y_test.
        tensor: the model's input.
        output: the model's output if targets are vectors (mean squared error; missing y arrays
            mean the samples themselves, as for an autoencoder), None if they are labels.
        classes: number of classes; labels must be below it. Ignored for vectors.

    Raises:
        InputError: what is wrong with which array.
    """
    arrays = _load(path)
    if output is not None:
        for key, source in (("y_train", "x_train"), ("y_test", "x_test")):
            if key not in arrays and source in arrays:
                samples = convert(arrays[source], tensor, source, path)
                arrays[key] = dequantize(samples, tensor.q)
    missing = [key for key in KEYS if key not in arrays]
    if missing:
        raise _bad(path, f"missing arrays {', '.join(missing)}", f"it needs {', '.join(KEYS)}")
    parts: dict[str, Array] = {}
    for part in ("train", "test"):
        x = convert(arrays[f"x_{part}"], tensor, f"x_{part}", path)
        y = arrays[f"y_{part}"]
        if len(x) == 0:
            raise _bad(path, f"x_{part} is empty", "give at least one sample")
        if output is None:
            y = _labels(y, classes, f"y_{part}", path)
        else:
            y = convert(y, output, f"y_{part}", path)
        if len(x) != len(y):
            raise _bad(path, f"{len(x)} samples in x_{part}, {len(y)} labels in y_{part}")
        parts[f"x_{part}"], parts[f"y_{part}"] = x, y
    return Dataset(**parts)


def dataset_from_arrays(arrays: dict[str, Array], tensor: Tensor, classes: int) -> Dataset:
    """The same for arrays in memory (labels only)."""
    here = Path("(arrays)")
    return Dataset(
        convert(arrays["x_train"], tensor, "x_train", here),
        _labels(arrays["y_train"], classes, "y_train", here),
        convert(arrays["x_test"], tensor, "x_test", here),
        _labels(arrays["y_test"], classes, "y_test", here),
    )


def _load(path: Path) -> dict[str, Array]:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise _bad(path, "not a regular file", "save the arrays to a file with numpy.savez")
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            hint = f"an .npz holds {', '.join(KEYS)}: save them with numpy.savez"
            raise _bad(path, "one array (.npy), not an .npz archive of several", hint)
        with loaded as file:
            total = sum(info.file_size for info in file.zip.infolist()) if file.zip else 0
            if total > _MAX_BYTES:
                raise _bad(path, f"{total} bytes unpacked, the limit is {_MAX_BYTES}")
            arrays = {key: file[key] for key in file.files if key in KEYS}
            for key, value in arrays.items():
                if not isinstance(value, np.ndarray):  # bytes, where the member is no array
                    raise _bad(path, f"{key} is not an array", "save it with numpy.savez")
            return arrays
    except FileNotFoundError as error:
        raise InputError("data-missing", "data", "no such data file", where=str(path)) from error
    except InputError:
        raise
    except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise _bad(path, f"not a readable .npz file: {error}") from error
    except Exception as error:  # zlib.error, struct.error, tokenizer errors of a damaged header
        raise _bad(path, f"damaged .npz file: {type(error).__name__}: {error}") from error


def _means(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether samples of a shape `given` are surely meant as samples of the model's `shape`."""
    if not given or int(np.prod(given[1:])) != int(np.prod(shape)):
        return False
    long, longer = ([size for size in sizes if size != 1] for sizes in (given[1:], shape))
    return long == longer or len(long) <= 1 or len(longer) <= 1


def convert(values: Array, tensor: Tensor, what: str, path: Path) -> Array:
    """Samples of any accepted type -> int8 [N, *tensor.shape[1:]]; see the module's text."""
    shape = tensor.shape[1:]
    if not _means(values.shape, shape):
        raise _bad(
            path,
            f"{what} has shape {values.shape}, the model takes [N, {', '.join(map(str, shape))}]",
            "give samples in the model's order of axes, or as flat rows in that order",
        )
    values = values.reshape(len(values), *shape)
    if values.dtype == np.int8:
        return np.ascontiguousarray(values)
    if values.dtype == np.uint8:
        largest = (127 - tensor.q.zero_point) * tensor.q.scale0
        return quantize(values.astype(np.float32) / (1 if largest > 2 else 255), tensor.q)
    if np.issubdtype(values.dtype, np.floating):
        if not np.all(np.isfinite(values)):
            raise _bad(path, f"{what} holds values that are not finite")
        return quantize(values, tensor.q)
    raise _bad(path, f"{what} has type {values.dtype}", "give int8, uint8 or float")


def _labels(values: Array, classes: int, what: str, path: Path) -> Array:
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise _bad(
            path,
            f"{what} has shape {values.shape} and type {values.dtype}",
            "labels are integers, one a sample",
        )
    if len(values) and not (0 <= int(values.min()) and int(values.max()) < classes):
        raise _bad(
            path,
            f"labels of {what} go from {values.min()} to {values.max()},"
            f" the head has {classes} classes",
            f"ask for a fresh classifier: --classes {int(values.max()) + 1}"
            if int(values.min()) >= 0
            else "labels start at 0",
        )
    return values.astype(np.int32)


def _bad(path: Path, message: str, hint: str = "") -> InputError:
    return InputError("bad-data", "data", message, where=str(path), hint=hint)
