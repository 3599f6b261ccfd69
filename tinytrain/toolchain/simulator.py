"""The simulator: generated C compiled for this machine and loaded into this process.

In: a generated project, NumPy arrays. Out: NumPy arrays, the same bits as on a board. Must not
know graphs: names, places and shapes come from the project's manifest.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.errors import InputError, InternalError, UsageError
from tinytrain.toolchain.generated import Generated, Source, load_generated
from tinytrain.toolchain.host_library import TRACE_CALLBACK, HostRun, load_library
from tinytrain.toolchain.trace import Watch, read_tensor

Array = npt.NDArray[Any]
Progress = Callable[[int, int], None]

GUARD_BYTES = 1024
_GUARD = 0xA5
_ALIGNMENT = 64
_CHUNK_S = 0.1
_STAGE = "simulator"


class Simulator:
    """One model under simulation: its memory is its own, so several can be used side by side.

    Args:
        source: the project's folder, or its files as `codegen.generate` returns them.

    Raises:
        InputError: not a generated project.
        ToolError: there is no C compiler, or it refused the sources.
    """

    def __init__(self, source: Source) -> None:
        self.project: Generated = load_generated(source)
        self._library = load_library(self.project)
        size = self.project.memory_bytes
        block = np.full(size + 2 * GUARD_BYTES + _ALIGNMENT, _GUARD, np.uint8)
        start = GUARD_BYTES + -(block.ctypes.data + GUARD_BYTES) % _ALIGNMENT
        self._guards = (block[:start], block[start + size :])
        self._memory = block[start : start + size]
        self._model = np.zeros(self._library.tt_host_model_bytes() + 64, np.uint8)
        self._call("tt_host_open", self._memory.ctypes.data, size)

    # ---- running ----

    def infer(self, x: Array) -> Array:
        """Run the model.

        Args:
            x: int8 [N, ...] in the model's input shape.

        Returns:
            float32 [N, classes] scores, or int8 [N, values].
        """
        outputs, _ = self._infer(x)
        return outputs

    def predict(self, x: Array) -> npt.NDArray[np.int32]:
        """The index of the largest output of each sample, int32 [N]; `x` as in `infer`."""
        _, best = self._infer(x)
        return best

    def train(
        self,
        x: Array,
        targets: Array,
        rates: Array | float,
        *,
        order: Array | None = None,
        apply: bool = True,
        progress: Progress | None = None,
    ) -> npt.NDArray[np.float32]:
        """Take one step a sample.

        Args:
            x: int8 [N, ...] in the model's input shape.
            targets: int [N] class indices, or int8 [N, ...] values at the output's scale.
            rates: learning rate of each step, or one for all; finite, >= 0.
            order: indices of the samples to take, in turn; all of them once unless given.
            apply: False calibrates: errors and steps are measured, nothing is learned.
            progress: called with (steps done, steps in all) every tenth of a second or so.

        Returns:
            float32 [steps], the loss of each sample before its update.

        Raises:
            InputError: shapes, types, classes, indices or rates are not as they should be.
            UsageError: the program can only infer.
        """
        inputs, wanted = self._check_inputs(x), self._check_targets(targets, len(x))
        turns = self._check_order(order, len(inputs))
        steps = np.broadcast_to(np.asarray(rates, np.float32), turns.shape)
        if not np.all(np.isfinite(steps) & (steps >= 0)):
            raise _bad("rates", "learning rates must be finite and not negative")
        steps = np.ascontiguousarray(steps)
        losses, best = np.zeros(len(turns), np.float32), np.zeros(len(turns), np.int32)
        for part in _chunks(len(turns), progress):
            run = HostRun(
                inputs=inputs.ctypes.data,
                targets=wanted.ctypes.data,
                rates=steps[part].ctypes.data,
                order=turns[part].ctypes.data,
                count=len(turns[part]),
                losses=losses[part].ctypes.data,
                best=best[part].ctypes.data,
                apply=int(apply),
            )
            self._call("tt_host_train", ctypes.byref(run))
        return losses

    # ---- what is kept ----

    def state(self) -> bytes:
        """The trained state: the bytes that a board would hold and save."""
        return self._memory[: self.project.state_bytes].tobytes()

    def set_state(self, state: bytes) -> None:
        """Replace the trained state.

        Raises:
            InputError: it has another size.
        """
        if len(state) != self.project.state_bytes:
            raise _bad("state", f"the state has {len(state)} bytes, not {self.project.state_bytes}")
        self._call("tt_set_state", state, len(state))

    def reset(self) -> None:
        """Back to the initial state and step 0; seed and batch stay."""
        self._library.tt_reset(self._model_pointer)

    @property
    def step_index(self) -> int:
        """Steps taken: the random numbers of a step depend on its index and the seed."""
        return int(self._library.tt_step_index(self._model_pointer))

    @step_index.setter
    def step_index(self, index: int) -> None:
        self._library.tt_set_step_index(self._model_pointer, index)

    def set_seed(self, seed: int) -> None:
        """Seed of the random numbers, 32 bits."""
        self._library.tt_set_seed(self._model_pointer, seed)

    def set_batch(self, samples: int) -> None:
        """Samples whose gradients are summed up before a step, 1 to 256.

        Raises:
            UsageError: the program updates after each sample.
            InputError: the number is out of range.
        """
        if not self.project.batches:
            if samples != 1:
                raise UsageError(
                    "no-batch",
                    _STAGE,
                    "this program updates after each sample",
                    hint="generate it with --batch",
                )
            return
        if not 1 <= samples <= 256:
            raise _bad("batch", f"a batch of {samples} samples; 1 to 256 are possible")
        self._call("tt_set_batch", samples)

    def values(self, name: str) -> Array:
        """A copy of a tensor as it lies in memory now; arena tensors come and go."""
        return read_tensor(self.project, self._memory, name)

    def trace(
        self, x: Array, target: Array | int | None = None, *, train: bool = False,
        rate: float = 0.0, apply: bool = True,
    ) -> dict[str, Array]:  # fmt: skip
        """Run one sample, watching every operator.

        Args:
            x: int8, one sample in the model's input shape.
            target: class index or int8 values; needed with `train`.
            train: whether to take a training step (which counts and, with `apply`, teaches).

        Returns:
            Tensor -> its value right after the operator that wrote it (the last one, if several).

        Raises:
            InternalError: an operator wrote outside of its outputs and its scratch.
        """
        inputs = self._check_inputs(np.asarray(x).reshape(1, *self.project.input_shape))
        watch = Watch(self.project, self._memory, inputs)
        library = load_library(self.project, trace=True)
        callback = TRACE_CALLBACK(watch.after)
        library.tt_host_set_trace(callback)
        library.tt_host_use(self._model_pointer)
        outputs = np.zeros(self.project.output_bytes, np.uint8)
        zeros, best, losses = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32)
        rates = np.array([rate], np.float32)
        run = HostRun(
            inputs=self._memory[self.project.input_offset :].ctypes.data,
            rates=rates.ctypes.data,
            order=zeros.ctypes.data,
            count=1,
            outputs=outputs.ctypes.data,
            losses=losses.ctypes.data,
            best=best.ctypes.data,
            apply=int(apply),
        )
        try:
            if train:
                wanted = self._check_targets(np.asarray(target).reshape(1, -1), 1)
                run.targets = wanted.ctypes.data
                self._call("tt_host_train", ctypes.byref(run), library=library)
            else:
                self._call("tt_host_infer", ctypes.byref(run), library=library)
        finally:
            library.tt_host_set_trace(TRACE_CALLBACK(0))
            self._library.tt_host_use(self._model_pointer)
        watch.finish()
        return watch.values

    # ---- inside ----

    @property
    def _model_pointer(self) -> int:
        return int(self._model.ctypes.data)

    def _infer(self, x: Array) -> tuple[Array, npt.NDArray[np.int32]]:
        inputs = self._check_inputs(x)
        turns = np.arange(len(inputs), dtype=np.int64)
        shape = (len(inputs), self.project.output_count)
        outputs, best = np.zeros(shape, self.project.output_dtype), np.zeros(len(inputs), np.int32)
        for part in _chunks(len(turns), None):
            run = HostRun(
                inputs=inputs.ctypes.data,
                order=turns[part].ctypes.data,
                count=len(turns[part]),
                outputs=outputs[part].ctypes.data,
                best=best[part].ctypes.data,
            )
            self._call("tt_host_infer", ctypes.byref(run))
        return outputs, best

    def _call(self, function: str, *arguments: Any, library: ctypes.CDLL | None = None) -> None:
        library = library or self._library
        status = int(getattr(library, function)(self._model_pointer, *arguments))
        if any(bool(np.any(guard != _GUARD)) for guard in self._guards):
            raise InternalError(
                "memory-overrun", _STAGE, "the C wrote outside of its memory", where=function
            )
        if status != 0:
            text = library.tt_status_text(status).decode("ascii")
            raise InternalError("runtime-status", _STAGE, f"{function}: {text}")

    def _check_inputs(self, x: Array) -> npt.NDArray[np.int8]:
        shape = self.project.input_shape
        inner = shape[1:] if shape[:1] == (1,) else shape
        x = np.asarray(x)
        if x.dtype != np.int8 or x.ndim == 0 or x[0:1].size not in (0, self.project.input_bytes):
            raise _bad("x", f"inputs must be int8 [N, {', '.join(map(str, inner))}], "
                       f"not {x.dtype}{list(x.shape)}")  # fmt: skip
        return np.ascontiguousarray(x).reshape(len(x), self.project.input_bytes)

    def _check_targets(self, targets: Array, count: int) -> Array:
        kind, project = self.project.target, self.project
        if kind == "none":
            raise UsageError(
                "no-training", _STAGE, "this program can only infer",
                hint="generate it with a scheme that trains something",
            )  # fmt: skip
        targets = np.asarray(targets)
        if len(targets) != count:
            raise _bad("targets", f"{len(targets)} targets for {count} samples")
        if kind == "values":
            if targets.dtype != np.int8 or targets.size != count * project.output_count:
                raise _bad("targets", f"targets must be int8 [N, {project.output_count}], "
                           f"not {targets.dtype}{list(targets.shape)}")  # fmt: skip
            return np.ascontiguousarray(targets)
        if targets.size != count or not np.issubdtype(targets.dtype, np.integer):
            raise _bad("targets", "targets must be integers [N], the index of the class")
        if count and (targets.min() < 0 or targets.max() >= project.classes):
            raise _bad("targets", f"classes are 0 to {project.classes - 1}, not "
                       f"{targets.min()} to {targets.max()}")  # fmt: skip
        return np.ascontiguousarray(targets.reshape(-1), np.int32)

    @staticmethod
    def _check_order(order: Array | None, count: int) -> npt.NDArray[np.int64]:
        if order is None:
            return np.arange(count, dtype=np.int64)
        turns = np.ascontiguousarray(order, np.int64).reshape(-1)
        if turns.size and (turns.min() < 0 or turns.max() >= count):
            raise _bad("order", f"indices of samples are 0 to {count - 1}")
        return turns


def _chunks(count: int, progress: Progress | None) -> Iterator[slice]:
    """Slices of `count` samples, each for about a tenth of a second.

    Between them Python runs: for progress, and for Ctrl-C.
    """
    done, size = 0, 1
    while done < count:
        begin = time.monotonic()
        part = slice(done, min(count, done + size))
        yield part
        done = part.stop
        if progress is not None:
            progress(done, count)
        seconds = max(time.monotonic() - begin, 1e-6)
        size = max(1, min(size * 2, int((part.stop - part.start) * _CHUNK_S / seconds)))


def _bad(where: str, message: str) -> InputError:
    return InputError("bad-data", _STAGE, message, where=where)
