"""The verifier must find every planted error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.random_plans import GraphBuilder, random_plan
from tinytrain.errors import InternalError
from tinytrain.ir import Graph, Phase, Role
from tinytrain.memory import Plan
from tinytrain.memory.verifier import verify_plan


@dataclass
class Case:
    """A graph x -> a -> b -> c with a saved `a`, scratch, and a plan made by hand."""

    graph: Graph
    offsets: dict[str, int] = field(default_factory=dict)
    scratch: dict[str, int] = field(default_factory=dict)
    arena: int = 64

    def verify(self) -> None:
        verify_plan(self.graph, self.offsets, self.scratch, self.arena)

    def refused(self, message: str) -> None:
        with pytest.raises(InternalError, match=message) as caught:
            self.verify()
        assert caught.value.code == "memory-plan"


@pytest.fixture
def case() -> Case:
    builder = GraphBuilder()
    builder.tensor("x", 16, Role.INPUT)
    for name in "abc":
        builder.tensor(name, 16)
    builder.op("plain", ("x",), ("a",), scratch=8)
    builder.op("unary", ("a",), ("b",))
    builder.op("plain", ("b",), ("c",))
    builder.op("plain", ("a", "c"), (), Phase.BACKWARD)
    graph = builder.graph(["c"])
    return Case(graph, {"x": 0, "a": 16, "b": 0, "c": 32}, {"plain_0": 48})


def test_a_good_plan_passes(case: Case) -> None:
    case.verify()


def test_an_overwritten_saved_tensor(case: Case) -> None:
    case.offsets["c"] = 16
    case.refused("a was overwritten by c at byte 16")


def test_a_partly_overwritten_saved_tensor(case: Case) -> None:
    case.offsets["c"] = 28
    case.refused("a was overwritten by c at byte 28")


def test_an_output_over_an_input_that_is_not_declared(case: Case) -> None:
    case.offsets["a"] = 0
    case.refused("a overlaps the input x")


def test_in_place_where_the_input_is_needed_later(case: Case) -> None:
    case.offsets["b"] = 16
    case.refused("a was overwritten by b")


def test_in_place_must_begin_at_the_same_address(case: Case) -> None:
    case.offsets |= {"b": 20, "c": 40}
    case.refused("b overlaps the input a")


def test_scratch_over_an_input(case: Case) -> None:
    case.scratch["plain_0"] = 12
    case.refused("x was overwritten by scratch of plain_0")


def test_scratch_over_an_output(case: Case) -> None:
    case.scratch["plain_0"] = 28
    case.refused("a overlaps the scratch")


def test_missing_scratch(case: Case) -> None:
    case.scratch.clear()
    case.refused("plain_0 has no scratch")


def test_missing_address(case: Case) -> None:
    del case.offsets["b"]
    case.refused("b has no address")


def test_outside_of_the_arena(case: Case) -> None:
    case.arena = 47
    case.refused("outside of the arena")
    case.arena = 64
    case.offsets["b"] = -4
    case.refused("outside of the arena")


def test_not_aligned(case: Case) -> None:
    case.offsets["c"] = 33
    case.refused("is not aligned")


def test_an_output_lost_before_the_forward_part_ends() -> None:
    builder = GraphBuilder()
    builder.tensor("x", 8, Role.INPUT)
    builder.tensor("y", 8)
    builder.tensor("z", 8)
    builder.op("plain", ("x",), ("y",))
    builder.op("plain", ("x",), ("z",))
    builder.op("plain", ("z",), (), Phase.BACKWARD)
    Case(builder.graph(["y"]), {"x": 0, "y": 8, "z": 16}).verify()
    Case(builder.graph(["y"]), {"x": 0, "y": 8, "z": 8}).refused("y was overwritten by z")


def test_a_backward_output_lost_before_the_end() -> None:
    builder = GraphBuilder()
    builder.tensor("loss", 8)
    builder.tensor("z", 8)
    builder.op("plain", (), ("loss",), Phase.BACKWARD)
    builder.op("plain", (), ("z",), Phase.BACKWARD)
    graph = builder.graph(["loss"])
    Case(graph, {"loss": 0, "z": 8}).verify()
    Case(graph, {"loss": 0, "z": 0}).refused("loss was overwritten by z")


def test_two_outputs_of_one_operator() -> None:
    builder = GraphBuilder()
    builder.tensor("a", 8)
    builder.tensor("b", 8)
    builder.op("plain", (), ("a", "b"))
    graph = builder.graph([])
    Case(graph, {"a": 0, "b": 8}).verify()
    Case(graph, {"a": 0, "b": 4}).refused("overlaps the output")


def test_a_view_keeps_both_alive_and_one_write_kills_both() -> None:
    builder = GraphBuilder()
    builder.tensor("x", 8, Role.INPUT)
    for name in "vbc":
        builder.tensor(name, 8)
    builder.op("reshape", ("x",), ("v",))
    builder.op("unary", ("v",), ("b",))
    builder.op("plain", ("x",), ("c",))
    graph = builder.graph(["c"])
    Case(graph, {"x": 0, "v": 0, "b": 8, "c": 16}).verify()
    Case(graph, {"x": 0, "v": 8, "b": 8, "c": 16}).verify()  # a copy may be overwritten
    Case(graph, {"x": 0, "v": 0, "b": 0, "c": 16}).refused("x was overwritten by b")
    Case(graph, {"x": 0, "v": 4, "b": 16, "c": 24}).refused("v overlaps the input x")


def test_a_larger_output_is_never_in_place() -> None:
    builder = GraphBuilder()
    builder.tensor("x", 8, Role.INPUT)
    builder.tensor("y", 12)
    builder.op("unary", ("x",), ("y",))
    Case(builder.graph(["y"]), {"x": 0, "y": 0}).refused("y overlaps the input x")


def test_reading_what_was_never_written() -> None:
    builder = GraphBuilder()
    builder.tensor("a", 8)
    builder.op("plain", ("a",), ())
    Case(builder.graph([]), {"a": 0}).refused("a is read before it is written")


@pytest.mark.parametrize(
    ("offsets", "good"),
    [
        ({"s": 0, "t": 8, "g": 12}, True),
        ({"s": 0, "t": 4, "g": 12}, False),
        ({"s": 4, "t": 12, "g": 0}, False),
        ({"s": 0, "t": 10, "g": 16}, False),
        ({"s": 0, "t": 8}, False),
    ],
)
def test_state_layouts(offsets: Mapping[str, int], good: bool) -> None:
    builder = GraphBuilder()
    builder.tensor("s", 7, Role.STATE)
    builder.tensor("t", 4, Role.STATE)
    builder.tensor("g", 4, Role.BUFFER)
    graph = builder.graph([])
    if good:
        verify_plan(graph, {}, {}, 0, state_offsets=offsets)
    else:
        with pytest.raises(InternalError) as caught:
            verify_plan(graph, {}, {}, 0, state_offsets=offsets)
        assert caught.value.code == "state"


def conflicts(made: Plan, name: str, offset: int) -> bool:
    """Whether a buffer at another offset meets one that lives at the same time."""
    moved = next(b for b in made.buffers if name in (*b.tensors, b.name))
    for other, start in zip(made.buffers, made.buffer_offsets, strict=True):
        if other is moved:
            continue
        for time in range(moved.start, moved.end):
            mine, theirs = moved.nbytes_at(time), other.nbytes_at(time)
            if mine and theirs and offset < start + theirs and start < offset + mine:
                return True
    return False


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 60), st.data())
def test_moving_any_buffer_onto_another_is_found(seed: int, data: st.DataObject) -> None:
    made = random_plan(seed)
    buffer = data.draw(st.sampled_from(made.buffers))
    offset = 4 * data.draw(st.integers(0, (made.arena_bytes - buffer.nbytes) // 4))
    assume(conflicts(made, buffer.name, offset))
    offsets, scratch = dict(made.offsets), dict(made.scratch_offsets)
    if buffer.scratch:
        scratch[buffer.name] = offset
    else:
        offsets |= dict.fromkeys(buffer.tensors, offset)
    with pytest.raises(InternalError):
        verify_plan(made.graph, offsets, scratch, made.arena_bytes)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 60))
def test_an_arena_that_is_too_small_is_found(seed: int) -> None:
    made = random_plan(seed)
    with pytest.raises(InternalError):
        verify_plan(made.graph, made.offsets, made.scratch_offsets, made.arena_bytes - 4)
