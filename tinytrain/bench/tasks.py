"""The tasks on which accuracy is measured: a model of the zoo, data, a number of epochs.

Source of the epochs: each task is trained until float32 has settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tinytrain.bench.models import SPARSE_49KB
from tinytrain.errors import InputError
from tinytrain.train import SchemeTable

SCHEMES = ("head", "bias:all", "last:4", "full")


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: stem of the data file.
        model: stem of the model's file.
        classes: of a fresh classifier; None keeps the model's own.
        epochs: passes over the training samples.
        schemes: further schemes by name.
    """

    name: str
    model: str
    classes: int | None
    epochs: int
    schemes: Mapping[str, SchemeTable] = field(default_factory=dict)

    def files(self, zoo: Path) -> tuple[Path, Path]:
        """Model and data.

        Raises:
            InputError: one of them is not there.
        """
        model, data = zoo / "models" / f"{self.model}.tflite", zoo / "tasks" / f"{self.name}.npz"
        for path in (model, data):
            if not path.is_file():
                raise InputError("no-zoo", "bench", "a file of the zoo is missing", where=str(path),
                                 hint="give --zoo or set TINYTRAIN_ZOO")  # fmt: skip
        return model, data


_RESNET, _KWS = "mlperf_pretrainedResnet_quant", "mlperf_kws_ref_model"

TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task("kws_digits", _KWS, 10, 20),
        Task("kws_digits_speaker0", _KWS, 10, 30),
        Task("resnet8_new10", _RESNET, 10, 10),
        Task("resnet8_blur", _RESNET, None, 8),
        Task("har_user23_rotated", "har_cnn_int8", None, 40),
        Task("mcunet_signs", "mcunet-5fps", 10, 10, {"49kb": SPARSE_49KB}),
    )
}
MAIN_TASKS = tuple(name for name in TASKS if name != "mcunet_signs")
