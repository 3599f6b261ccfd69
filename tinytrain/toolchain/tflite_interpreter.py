"""TFLite's own interpreters, where they are installed: what a model computes by their word.

In: a model's bytes and an input. Out: its tensors by tflite index. They run reference kernels,
which are the specification; the optimized ones differ in the last bit. Must not know our graph.

Known of them: `tflite-runtime` 2.14 computes ADD, MUL and SOFTMAX over their own inputs even where
all tensors are preserved, takes the first dimension for all rows of a FULLY_CONNECTED with scales a
channel, and crashes with NumPy 2; `ai-edge-litert` rounds the requantization of
FULLY_CONNECTED once, where the specification rounds twice.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.errors import InputError, ToolError

Array = npt.NDArray[Any]
TFLITE_RUNTIME, LITERT = "tflite-runtime", "ai-edge-litert"

_STAGE = "toolchain"
_MODULES = {TFLITE_RUNTIME: "tflite_runtime", LITERT: "ai_edge_litert"}


@dataclass(frozen=True, eq=False)
class TfliteInterpreter:
    """One interpreter with a model loaded."""

    name: str
    version: str
    _interpreter: Any

    def run(self, x: Array, wanted: Sequence[int]) -> dict[int, Array]:
        """Run once.

        Args:
            x: the input, in the shape and type that the file says.
            wanted: tflite indices of tensors to read back.
        """
        detail = self._interpreter.get_input_details()[0]
        self._interpreter.set_tensor(detail["index"], x)
        self._interpreter.invoke()
        return {index: self._interpreter.get_tensor(index) for index in wanted}

    def input(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of the input."""
        detail = self._interpreter.get_input_details()[0]
        return tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])


def installed_interpreters() -> tuple[str, ...]:
    """Names of the interpreters that can be imported here."""
    found = []
    for name, package in _MODULES.items():
        old_numpy = int(np.__version__.split(".")[0]) < 2
        if importlib.util.find_spec(package) and (name != TFLITE_RUNTIME or old_numpy):
            found.append(name)
    return tuple(found)


def load_interpreters(model: bytes) -> tuple[TfliteInterpreter, ...]:
    """Load a model into every interpreter that is installed.

    Raises:
        ToolError: none is installed.
        InputError: none takes the model.
    """
    names = installed_interpreters()
    if not names:
        raise ToolError(
            "missing-interpreter",
            _STAGE,
            "no TFLite interpreter is installed",
            hint="pip install tflite-runtime 'numpy<2' (Python up to 3.11), or ai-edge-litert",
        )
    loaded, refused = [], []
    for name in names:
        module = importlib.import_module(f"{_MODULES[name]}.interpreter")
        try:
            interpreter = module.Interpreter(
                model_content=model,
                experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
                experimental_preserve_all_tensors=True,
            )
            interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            refused.append(f"{name}: {error}")
            continue
        loaded.append(TfliteInterpreter(name, importlib.metadata.version(name), interpreter))
    if not loaded:
        raise InputError(
            "refused-by-tflite",
            _STAGE,
            "no TFLite interpreter takes the model",
            hint="they said: " + "; ".join(refused),
        )
    return tuple(loaded)
