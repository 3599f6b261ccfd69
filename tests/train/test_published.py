from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.small_networks import CLASSES, Net
from tinytrain.errors import InputError
from tinytrain.ir import Graph
from tinytrain.reader import read
from tinytrain.train import parse_scheme
from tinytrain.train.published import scheme_table
from tinytrain.train.scheme import Choice

SCHEMES = Path(__file__).resolve().parent.parent / "schemes"


def _graph() -> Graph:
    net = Net(5)
    y = net.conv(net.image(1, 6, 7, 3), 8)
    y = net.conv(net.depthwise(net.conv(y, 8)), 4, (1, 1))
    return read(net.done(net.dense(net.same(net.b.mean(y), y), CLASSES)))


def _parse(folder: Path, document: object, name: str = "scheme.json") -> dict[str, Choice]:
    path = folder / name
    path.write_text(json.dumps(document))
    return dict(parse_scheme(str(path), _graph()).choices)


def test_indices_ratios_and_biases(tmp_path: Path) -> None:
    document = {
        "n_bias_update": 3,
        "manual_weight_idx": [1, 2, 3],
        "weight_update_ratio": [0.25, 1, 0],
        "weight_select_criteria": "magnitude+",
        "enable_backward_config": 1,
        "n_weight_update": 0,
        "pw1_weight_only": 0,
    }
    choices = _parse(tmp_path, document)
    layers = [op.name for op in _graph().ops if op.kind != "mean"]
    convolution, depthwise, project, head = (choices[name] for name in layers[1:])
    assert (convolution.weights, convolution.bias, len(convolution.channels)) == (True, True, 2)
    assert depthwise == Choice(depthwise.op, True, True)
    assert project == Choice(project.op, False, True)
    assert head == Choice(head.op, True, True)


def test_the_forms_in_which_they_are_written(tmp_path: Path) -> None:
    whole = {"n_bias_update": 3, "manual_weight_idx": [1, 3], "weight_update_ratio": [0.5, 0.25]}
    text = {**whole, "manual_weight_idx": "1-3", "weight_update_ratio": "0.5-0.25"}
    assert _parse(tmp_path, text) == _parse(tmp_path, whole)
    assert _parse(tmp_path, {"backward_config": whole}) == _parse(tmp_path, whole)
    path = tmp_path / "scheme.toml"
    path.write_text(
        'n_bias_update = 3\nmanual_weight_idx = "1-3"\nweight_update_ratio = "0.5-0.25"'
    )
    assert dict(parse_scheme(str(path), _graph()).choices) == _parse(tmp_path, whole)
    one = {"n_bias_update": 3, "manual_weight_idx": [1, 3], "weight_update_ratio": 0.5}
    assert _parse(tmp_path, one) == _parse(tmp_path, {**one, "weight_update_ratio": [0.5, 0.5]})
    none = {"n_bias_update": "all", "manual_weight_idx": 1}
    assert _parse(tmp_path, none) == _parse(tmp_path, {**none, "weight_update_ratio": [1]})


def test_own_form_in_json(tmp_path: Path) -> None:
    own = {"bias_last": 2, "layer": [{"index": 1, "ratio": 0.5}]}
    theirs = {"n_bias_update": 2, "manual_weight_idx": 1, "weight_update_ratio": 0.5}
    assert _parse(tmp_path, own) == _parse(tmp_path, theirs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight_select_criteria": "random"}, "weight_select_criteria 'random'"),
        ({"surprise": 1}, "unknown keys ['surprise']"),
        ({"weight_update_ratio": [1, 1, 1]}, "3 ratios for 2 indices"),
        ({"weight_update_ratio": "1-x"}, "weight_update_ratio must hold numbers"),
        ({"manual_weight_idx": [1, 0.5]}, "whole numbers"),
        ({"manual_weight_idx": [1, True]}, "0 or more"),
        ({"manual_weight_idx": [1, 99]}, "layer index 99"),
        ({"n_bias_update": "many"}, "bias_last must be"),
        ({"weight_update_ratio": [1, 2]}, "ratio must be above 0"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    document = {"n_bias_update": 3, "manual_weight_idx": [1, 3], "weight_update_ratio": [1, 0.5]}
    with pytest.raises(InputError) as caught:
        _parse(tmp_path, {**document, **change})
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["[1]", "{", "3"])
def test_broken_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scheme.json"
    path.write_text(text)
    with pytest.raises(InputError, match="not a"):
        parse_scheme(str(path), _graph())


@pytest.mark.zoo
@pytest.mark.parametrize("path", sorted(SCHEMES.glob("*.json")), ids=lambda path: path.stem)
def test_published_files_fit_their_models(path: Path, zoo: Path) -> None:
    model = path.stem.rsplit("-", 1)[0]
    graph = read(zoo / "models" / f"{model}.tflite")
    given = json.loads(path.read_text())
    choices = parse_scheme(str(path), graph).choices.values()
    assert sum(c.weights for c in choices) == 1 + sum(r > 0 for r in given["weight_update_ratio"])
    assert sum(c.bias for c in choices) == 1 + given["n_bias_update"]
    assert scheme_table(given, ValueError)["bias_last"] == given["n_bias_update"]
