"""The models of the zoo, how each is trained in tests, and inputs for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytrain.pipeline import Prepared, Training, prepare
from tinytrain.reader import read
from tinytrain.train import TrainOptions

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A model file, the task with real inputs for it ("" for random ones), and a training."""

    model: str
    task: str
    scheme: str
    options: TrainOptions = field(default_factory=TrainOptions)

    def inputs(self, zoo: Path, count: int) -> Array:
        """int8 [count, ...]: real test samples first, random ones after them."""
        graph = read(zoo / "models" / f"{self.model}.tflite")
        shape = graph[graph.inputs[0]].shape[1:]
        rng = np.random.default_rng(0)
        random = rng.integers(-128, 128, (count, *shape)).astype(np.int8)
        if not self.task:
            return random
        with np.load(zoo / "tasks" / f"{self.task}.npz") as file:
            real = file["x_test"][: count - 2]
        return np.concatenate([real, random[: count - len(real)]])

    def prepare(self, zoo: Path, samples: Array) -> Prepared:
        """Build the training graph, calibrated on `samples`."""
        path = zoo / "models" / f"{self.model}.tflite"
        return prepare(Training(path, self.scheme, self.options), samples)

    def targets(self, prepared: Prepared, count: int) -> Array:
        """Labels int32 [count], or int8 vectors for the mean squared error."""
        rng = np.random.default_rng(1)
        if self.options.loss == "mse":
            shape = (count, *prepared.result.shape[1:])
            return rng.integers(-128, 128, shape).astype(np.int8)
        return rng.integers(0, prepared.result.size, count).astype(np.int32)


TEN = TrainOptions(classes=10)
MSE = TrainOptions(loss="mse")
CASES = (
    Case("mlperf_pretrainedResnet_quant", "resnet8_blur", "full"),
    Case("mlperf_kws_ref_model", "kws_digits", "full", TEN),
    Case("mlperf_vww_96_int8", "vww_coco_test", "last:6"),
    Case("mlperf_ad01_int8", "", "full", MSE),
    Case("mlperf_str_ww_ref_model", "", "full", TrainOptions(weight_state="int8")),
    Case("mcunet-5fps", "mcunet_signs", "bias:20", TEN),
    Case("mbv2-w0.35", "mcunet_signs", "last:4", TEN),
    Case("har_cnn_int8", "har_user23_rotated", "full", TrainOptions(batch=4)),
    Case("tflm_micro_speech_quantized", "", "full", TrainOptions(rounding="nearest")),
    Case("tflm_hello_world_int8", "", "full", MSE),
)
"""Every int8 model of the zoo."""


def case_id(case: Case) -> str:
    """Of a parametrized test."""
    return case.model
