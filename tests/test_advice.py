"""What giving up a part of a scheme saves: each figure is that of a plan made anew."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tinytrain.advice import WEIGHTED_LAYERS, Candidate, advise
from tinytrain.boards import get_board
from tinytrain.demo.data import MODEL_PATH
from tinytrain.passes.fold_pad import fold_pad
from tinytrain.pipeline import Prepared, Training, fit, prepare
from tinytrain.train import TrainOptions, attach_loss, parse_scheme
from tinytrain.train.layers import layers_of

BOARD = get_board("mps2-an386")


def prepared(scheme: str, **options: int) -> Prepared:
    return prepare(Training(MODEL_PATH, scheme, TrainOptions(**options)))  # type: ignore[arg-type]


def write(folder: Path, scheme: object) -> str:
    path = folder / "scheme.json"
    path.write_text(json.dumps(scheme))
    return str(path)


def parts(found: tuple[Candidate, ...]) -> list[str]:
    """What is given up, without the operators' names."""
    return sorted(c.what.split(" (")[0] + c.what.partition(")")[2] for c in found)


@pytest.mark.parametrize(("scheme", "batch"), [("full", 1), ("last:2", 4), ("bias:all", 1)])
def test_savings_are_those_of_the_schemes_that_are_told(
    scheme: str, batch: int, tmp_path: Path
) -> None:
    whole = prepared(scheme, batch=batch)
    found = advise(whole)
    assert 0 < len(found) <= 2 * WEIGHTED_LAYERS + 2
    sizes = fit(whole, BOARD)
    for candidate in found:
        smaller = fit(prepared(write(tmp_path, candidate.scheme), batch=batch), BOARD)
        assert candidate.saved_bytes == sizes.sram_bytes - smaller.sram_bytes
        assert candidate.saved_arena_bytes == sizes.arena_bytes - smaller.arena_bytes
        assert candidate.saved_state_bytes == (
            sizes.trained_bytes + sizes.buffer_bytes - smaller.trained_bytes - smaller.buffer_bytes
        )
        assert candidate.scheme["head"] is True
    savings = [candidate.saved_bytes for candidate in found]
    assert savings == sorted(savings, reverse=True)
    assert advise(whole) == found


def test_each_candidate_gives_up_one_part_and_nothing_else(tmp_path: Path) -> None:
    whole = prepared("last:2")
    forward = attach_loss(fold_pad(whole.model), whole.training.options, {})
    before = parse_scheme("last:2", forward).choices
    first, second = (layer.op.name for layer in layers_of(forward)[-3:-1])
    changes = {}
    for candidate in advise(whole):
        after = parse_scheme(write(tmp_path, candidate.scheme), forward).choices
        changed = {name for name in before if after.get(name) != before[name]}
        assert len(changed) == 1 and set(after) <= set(before)
        changes[candidate.what.split(" of ")[0], changed.pop()] = after
    assert set(changes) == {
        ("weights", first), ("weights", second), ("channels", first), ("channels", second),
        ("all", first),
    }  # fmt: skip
    assert first not in changes["all", first]
    stays = changes["weights", second][second]
    assert not stays.weights and stays.bias and stays.channels == ()
    halved = changes["channels", second][second]
    assert halved.weights and halved.bias


def test_of_chosen_channels_the_half_with_the_larger_weights_stays(tmp_path: Path) -> None:
    layers = layers_of(attach_loss(fold_pad(prepared("head").model), TrainOptions(), {}))
    layer = layers[-2]
    row = {"index": layer.index, "channels": [1, 3, 4, 6, 7]}
    whole = prepared(write(tmp_path, {"layer": [row]}))
    found = {c.what.split(" of ")[0]: c for c in advise(whole)}
    assert found["channels"].what.endswith("5 to 2")
    (kept,) = found["channels"].scheme["layer"]
    data = whole.model[layer.weights].data
    assert data is not None
    norms = np.sum(data.astype(np.float64) ** 2, axis=(0, 1, 2))
    largest = sorted([1, 3, 4, 6, 7], key=lambda c: -norms[c])[:2]
    assert kept["channels"] == sorted(largest) and kept["bias"] is False
    # without its weights nothing of the layer is left, as if the layer were given up
    assert set(found) == {"weights", "channels"}
    assert found["weights"].scheme == {"head": True, "layer": []}


def test_many_biases() -> None:
    found = advise(prepared("bias:4"))
    assert [c.what.split(" (")[0] for c in found] == [
        "all of the 2 earliest of 4 layers",
        f"bias of layer {len(layers_of(prepared('head').graph)) - 5}",
    ]


@pytest.mark.parametrize("scheme", ["head", "none"])
def test_the_head_is_not_given_up(scheme: str) -> None:
    assert advise(prepared(scheme)) == ()


def test_a_scheme_without_head_is_not_emptied(tmp_path: Path) -> None:
    one = write(tmp_path, {"head": False, "layer": [{"index": 0, "weights": False, "bias": True}]})
    assert advise(prepared(one)) == ()
