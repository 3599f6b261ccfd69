"""The layout of what outlives a step, and its bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytrain.errors import InputError, InternalError
from tinytrain.ir import Array, Graph, Role, Tensor
from tinytrain.memory.state_layout import state_layout

DTYPES = ("int8", "uint8", "int16", "int32", "float32")


def graph_of(*tensors: Tensor) -> Graph:
    return Graph("states", {t.name: t for t in tensors}, (), (), ())


def example() -> Graph:
    return graph_of(
        Tensor("w", (3,), "int8", Role.STATE, data=np.array([1, -2, 3], np.int8)),
        Tensor("acc", (5,), "int16", Role.BUFFER),
        Tensor("b", (1,), "int32", Role.STATE, data=np.array([-2], np.int32)),
        Tensor("x", (9,), "int8", Role.INPUT),
        Tensor("range", (1,), "float32", Role.STATE),
    )


def test_state_first_then_buffers_each_by_name() -> None:
    layout = state_layout(example())
    assert layout.offsets == {"b": 0, "range": 4, "w": 8, "acc": 12}
    assert (layout.state_bytes, layout.buffer_bytes) == (12, 12)
    assert [t.name for t in layout.state] == ["b", "range", "w"]


def test_the_layout_does_not_depend_on_the_order_of_tensors() -> None:
    graph = example()
    turned = replace(graph, tensors=dict(reversed(list(graph.tensors.items()))))
    assert state_layout(turned).offsets == state_layout(graph).offsets


def test_bytes_are_little_endian_with_zero_padding() -> None:
    layout = state_layout(example())
    assert layout.initial() == bytes.fromhex("feffffff 00000000 01fe03 00")


@given(st.data())
def test_values_come_back(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 6))
    tensors, values = [], {}
    for i in range(count):
        shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
        dtype = data.draw(st.sampled_from(DTYPES))
        tensors.append(Tensor(f"s{i}", shape, dtype, Role.STATE))
        raw = data.draw(st.binary(min_size=tensors[-1].nbytes, max_size=tensors[-1].nbytes))
        values[f"s{i}"] = np.frombuffer(raw, dtype).reshape(shape)
    layout = state_layout(graph_of(*tensors))
    block = layout.pack(values)
    assert len(block) == layout.state_bytes
    back = layout.unpack(block)
    assert set(back) == set(values)
    for name, value in values.items():
        assert back[name].shape == value.shape
        assert back[name].dtype == value.dtype
        assert back[name].tobytes() == value.tobytes()
        back[name][...] = 0  # a copy of its own, to be written to
    assert layout.pack(values) == block


def test_a_block_of_another_size_is_the_users_mistake() -> None:
    with pytest.raises(InputError) as caught:
        state_layout(example()).unpack(bytes(11))
    assert caught.value.code == "state-size"


@pytest.mark.parametrize(
    "value",
    [None, np.zeros(4, np.int8), np.zeros((3, 1), np.int8), np.zeros(3, np.int16)],
)
def test_values_that_do_not_fit_are_refused(value: Array | None) -> None:
    layout = state_layout(example())
    values = layout.unpack(layout.initial())
    if value is None:
        del values["w"]
    else:
        values["w"] = value
    with pytest.raises(InternalError) as caught:
        layout.pack(values)
    assert caught.value.code == "state-value"
