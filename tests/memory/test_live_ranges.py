"""Live ranges, and which tensors share memory."""

from __future__ import annotations

import pytest

from tests.support.random_plans import GraphBuilder
from tinytrain.errors import InternalError
from tinytrain.ir import Phase, Role
from tinytrain.memory import plan
from tinytrain.memory.live_ranges import Buffer, Segment, live_bytes, live_ranges

B = Phase.BACKWARD


def start(input_bytes: int = 100) -> GraphBuilder:
    """A builder with an input `x`."""
    builder = GraphBuilder()
    builder.tensor("x", input_bytes, Role.INPUT)
    return builder


def chain(builder: GraphBuilder, *steps: tuple[str, str, str, int]) -> GraphBuilder:
    """Operators (kind, inputs, output, bytes of the output) of the forward phase."""
    for kind, inputs, output, nbytes in steps:
        builder.tensor(output, nbytes)
        builder.op(kind, inputs.split(), (output,))
    return builder


def buffers(builder: GraphBuilder, *outputs: str) -> dict[str, Buffer]:
    """The buffers by name; every graph here must also pass the verifier."""
    graph = builder.graph(outputs)
    plan(graph)
    plan(graph, reorder=False)
    return {b.name: b for b in live_ranges(graph).buffers}


def test_ranges_are_half_open_and_touch_at_the_operator() -> None:
    found = buffers(chain(start(), ("plain", "x", "a", 8), ("plain", "a", "b", 6)), "b")
    assert found["x"].segments == (Segment(0, 1, 100),)
    assert found["a"].segments == (Segment(0, 2, 8),)
    assert found["b"].segments == (Segment(1, 2, 6),)


def test_unread_input_and_dead_output_live_for_one_step() -> None:
    builder = chain(start(), ("plain", "", "a", 8), ("plain", "", "b", 6))
    found = buffers(builder, "b")
    assert (found["x"].start, found["x"].end) == (0, 1)
    assert (found["a"].start, found["a"].end) == (0, 1)


def test_forward_output_lives_to_the_end_of_the_forward_part() -> None:
    builder = chain(start(), ("plain", "x", "y", 8), ("plain", "x", "z", 8))
    builder.tensor("e", 8)
    builder.op("plain", ("z",), ("e",), B)
    builder.op("plain", ("e",), (), B)
    assert buffers(builder, "y")["y"].end == 2


def test_backward_output_lives_to_the_end() -> None:
    builder = chain(start(), ("plain", "x", "y", 8))
    builder.tensor("loss", 4)
    builder.op("plain", ("y",), ("loss",), B)
    builder.op("plain", (), (), B)
    builder.op("plain", (), (), Phase.APPLY)
    assert buffers(builder, "y", "loss")["loss"].end == 4


def test_scratch_lives_at_its_operator() -> None:
    builder = chain(start(), ("plain", "x", "a", 8))
    builder.tensor("b", 6)
    builder.op("plain", ("a",), ("b",), scratch=33)
    found = buffers(builder, "b")
    assert found["plain_1"].segments == (Segment(1, 2, 33),)
    assert found["plain_1"].scratch
    assert live_bytes(tuple(found.values()), 2) == (108, 8 + 36 + 8)


def test_in_place_over_a_consumed_input_that_the_caller_filled() -> None:
    found = buffers(chain(start(), ("unary", "x", "a", 100), ("plain", "a", "b", 6)), "b")
    assert found["x"].tensors == ("x", "a")
    assert found["x"].segments == (Segment(0, 2, 100),)


def test_a_smaller_output_in_place_frees_the_rest_after_its_operator() -> None:
    found = buffers(chain(start(), ("unary", "x", "a", 40), ("plain", "a", "b", 6)), "b")
    assert found["x"].segments == (Segment(0, 1, 100), Segment(1, 2, 40))
    assert found["x"].nbytes_at(0) == 100
    assert found["x"].nbytes_at(1) == 40
    assert found["x"].nbytes_at(2) == 0


def test_not_in_place_where_the_output_is_larger() -> None:
    found = buffers(chain(start(), ("unary", "x", "a", 101)), "a")
    assert found["x"].tensors == ("x",)


def test_not_in_place_where_the_input_is_read_later() -> None:
    steps = ("unary", "x", "a", 100), ("plain", "a x", "b", 6)
    assert buffers(chain(start(), *steps), "b")["x"].tensors == ("x",)


def test_not_in_place_over_an_output() -> None:
    steps = ("plain", "x", "a", 8), ("unary", "a", "b", 8)
    assert buffers(chain(start(), *steps), "a", "b")["a"].tensors == ("a",)


def test_in_place_over_the_input_that_came_last() -> None:
    steps = ("plain", "x", "a", 8), ("plain", "x", "b", 8), ("binary", "a b", "c", 8)
    found = buffers(chain(start(), *steps), "c")
    assert found["b"].tensors == ("b", "c")
    assert found["a"].tensors == ("a",)


def test_in_place_where_both_inputs_are_one_tensor() -> None:
    steps = ("plain", "x", "a", 8), ("binary", "a a", "b", 8)
    assert buffers(chain(start(), *steps), "b")["a"].tensors == ("a", "b")


def test_not_in_place_where_an_undeclared_input_is_the_same_tensor() -> None:
    steps = ("plain", "x", "a", 8), ("unary", "a a", "b", 8)
    assert buffers(chain(start(), *steps), "b")["a"].tensors == ("a",)


def test_alias_moves_no_data_even_where_the_input_lives_on() -> None:
    steps = ("plain", "x", "a", 8), ("reshape", "a", "v", 8), ("plain", "v a", "b", 8)
    found = buffers(chain(start(), *steps), "b")
    assert found["a"].tensors == ("a", "v")
    assert found["a"].segments == (Segment(0, 3, 8),)


def test_in_place_waits_for_every_view() -> None:
    steps = (
        ("plain", "x", "a", 8),
        ("reshape", "a", "v", 8),
        ("unary", "v", "b", 8),  # a is read later
        ("unary", "a", "c", 8),  # the last use of the bytes
        ("plain", "b c", "d", 8),
    )
    found = buffers(chain(start(), *steps), "d")
    assert found["a"].tensors == ("a", "v", "c")
    assert found["b"].tensors == ("b",)


def test_not_in_place_over_a_view_of_an_output() -> None:
    steps = ("plain", "x", "a", 8), ("reshape", "a", "v", 8), ("unary", "v", "b", 8)
    assert buffers(chain(start(), *steps), "a", "b")["a"].tensors == ("a", "v")


def test_not_in_place_where_a_view_comes_in_by_an_undeclared_input() -> None:
    steps = ("plain", "x", "a", 8), ("reshape", "a", "v", 8), ("unary", "a v", "b", 8)
    assert buffers(chain(start(), *steps), "b")["a"].tensors == ("a", "v")


def test_view_of_a_constant_is_a_copy() -> None:
    builder = start()
    builder.tensor("k", 8, Role.CONST)
    found = buffers(chain(builder, ("reshape", "k", "v", 8)), "v")
    assert found["v"].tensors == ("v",)


def test_in_place_then_view_then_in_place_is_one_buffer() -> None:
    steps = ("unary", "x", "a", 100), ("reshape", "a", "v", 100), ("unary", "v", "b", 60)
    found = buffers(chain(start(), *steps), "b")
    assert found["x"].tensors == ("x", "a", "v", "b")


def test_tensors_without_elements_need_no_memory() -> None:
    graph = chain(start(), ("plain", "x", "a", 0), ("plain", "a", "b", 8)).graph(["b"])
    made = plan(graph)
    assert made.offsets["a"] == 0
    assert made.arena_bytes == 100 + 0


def test_apart_keeps_an_output_out_of_its_input() -> None:
    graph = chain(start(), ("unary", "x", "a", 100)).graph(["a"])
    found = live_ranges(graph, apart=frozenset({"a"}))
    assert [b.tensors for b in found.buffers] == [("a",), ("x",)]
    assert found.in_place == ()


@pytest.mark.parametrize(
    ("code", "steps"),
    [
        ("read-before-write", (("plain", "b", "a", 8), ("plain", "x", "b", 8))),
        ("written-twice", (("plain", "x", "a", 8), ("plain", "x", "a", 8))),
        ("written-twice", (("plain", "x", "x", 100),)),
    ],
)
def test_malformed_graphs_are_refused(
    code: str, steps: tuple[tuple[str, str, str, int], ...]
) -> None:
    builder = start()
    builder.tensor("b", 8)
    role = builder.tensors["x"]
    graph = chain(builder, *steps)
    builder.tensors["x"] = role
    with pytest.raises(InternalError) as caught:
        plan(graph.graph(["a"] if "a" in builder.tensors else ["x"]))
    assert caught.value.code == code


def test_operators_of_one_name_are_refused() -> None:
    builder = chain(start(), ("plain", "x", "a", 8))
    builder.ops.append(builder.ops[0])
    with pytest.raises(InternalError, match="two operators are called plain_0"):
        plan(builder.graph(["a"]))
