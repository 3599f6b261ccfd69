"""What the project promises of real models and tasks: accuracy, equal bits in QEMU, speed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from codegen import generate
from tinytrain.boards import get_board
from tinytrain.pipeline import RunOptions, Training, emulate, prepare, simulate, start_run
from tinytrain.train import TrainOptions

TEN = TrainOptions(classes=10)


def learned(zoo: Path, model: str, task: str, scheme: str, options: TrainOptions) -> float:
    """Accuracy on the test samples after the default run."""
    training = Training(zoo / "models" / f"{model}.tflite", scheme, options)
    run = start_run(training, zoo / "tasks" / f"{task}.npz", RunOptions())
    accuracy = simulate(run).accuracy_after
    assert accuracy is not None
    return accuracy


@pytest.mark.zoo
def test_biases_learn_a_blurred_camera(zoo: Path) -> None:
    model = "mlperf_pretrainedResnet_quant"
    assert learned(zoo, model, "resnet8_blur", "bias:all", TrainOptions()) >= 0.65


@pytest.mark.zoo
def test_the_last_layers_learn_new_words(zoo: Path) -> None:
    assert learned(zoo, "mlperf_kws_ref_model", "kws_digits", "last:5", TEN) >= 0.88


@pytest.mark.zoo
@pytest.mark.arm
@pytest.mark.qemu
@pytest.mark.parametrize("board", ["mps2-an386", "mps2-an500"])
def test_the_emulator_ends_with_the_bits_of_the_simulator(
    zoo: Path, board: str, tmp_path: Path
) -> None:
    training = Training(zoo / "models" / "mlperf_kws_ref_model.tflite", "last:5", TEN)
    run = start_run(training, zoo / "tasks" / "kws_digits.npz", RunOptions(), steps=50)
    result = emulate(run, get_board(board), tmp_path / "my project")
    assert result.state_sha256 == simulate(run).state_sha256
    assert result.instructions_infer is not None and result.instructions_infer > 1_000_000


@pytest.mark.zoo
def test_code_of_a_large_model_is_made_within_seconds(zoo: Path) -> None:
    started = time.process_time()
    prepared = prepare(Training(zoo / "models" / "mcunet-5fps.tflite", "bias:20", TEN))
    generate(prepared.plan, boards=(get_board("mps2-an500"),))
    # of this process, so that a busy machine does not count
    assert time.process_time() - started < 5
