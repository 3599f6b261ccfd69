"""MCUNetV3's published configurations of a sparse update, as a scheme.

In: a table with `n_bias_update`, `manual_weight_idx`, `weight_update_ratio`, as its authors write
them (numbers, lists, or numbers joined by "-"). Out: a table in this project's own form.
Convolutions are counted from the input; the classifier is not counted, and always trained. Must
not know graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Refuse = Callable[[str], Exception]

SECTION = "backward_config"
_KEYS = {"n_bias_update", "manual_weight_idx", "weight_update_ratio"}
# what else stands in these files, with the values that change nothing here
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "enable_backward_config": (1, True),
    "n_weight_update": (0, None),
    "weight_select_criteria": ("magnitude+",),
    "pw1_weight_only": (0, False),
    "quantize_gradient": (0, False),
    "freeze_fc": (0, False),
    "train_scale": (0, False),
}


def is_published(table: Mapping[str, Any]) -> bool:
    """Whether a scheme file is one of theirs."""
    section = table.get(SECTION)
    return "n_bias_update" in table or (isinstance(section, Mapping) and set(table) == {SECTION})


def scheme_table(table: Mapping[str, Any], refuse: Refuse) -> dict[str, Any]:
    """The same choice as `bias_last` and `layer` rows.

    Args:
        refuse: makes the error for a message.
    """
    given = table.get(SECTION, table)
    unknown = set(given) - _KEYS - set(_NEUTRAL)
    if unknown:
        raise refuse(f"unknown keys {sorted(unknown)} beside n_bias_update")
    for key, values in _NEUTRAL.items():
        if key in given and given[key] not in values:
            raise refuse(f"{key} {given[key]!r} is not supported, only {values[0]!r}")
    biases = given.get("n_bias_update", 0)
    indices = _numbers(given.get("manual_weight_idx"), "manual_weight_idx", refuse)
    if any(index != int(index) for index in indices):
        raise refuse("manual_weight_idx must hold whole numbers")
    ratios = _numbers(given.get("weight_update_ratio"), "weight_update_ratio", refuse)
    if len(ratios) <= 1 < len(indices):
        ratios = (ratios or [1.0]) * len(indices)
    if not ratios:
        ratios = [1.0] * len(indices)
    if len(ratios) != len(indices):
        raise refuse(f"{len(ratios)} ratios for {len(indices)} indices")
    chosen = zip(indices, ratios, strict=True)
    rows = [_row(int(index), ratio) for index, ratio in chosen if ratio != 0]
    return {"bias_last": biases, "layer": rows}


def _row(index: int, ratio: float) -> dict[str, Any]:
    return {"index": index} if ratio == 1 else {"index": index, "ratio": ratio}


def _numbers(value: Any, key: str, refuse: Refuse) -> list[float]:
    """A number, a list of them, or a text such as "0.25-0.5"."""
    if value is None:
        return []
    if isinstance(value, str):
        value = value.split("-")
    items = value if isinstance(value, list) else [value]
    try:
        numbers = [float(item) for item in items]
    except (TypeError, ValueError, OverflowError) as error:
        raise refuse(f"{key} must hold numbers") from error
    if any(isinstance(item, bool) for item in items) or not all(0 <= n < 1e6 for n in numbers):
        raise refuse(f"{key} must hold numbers of 0 or more")
    return numbers
