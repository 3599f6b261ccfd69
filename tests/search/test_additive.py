"""The front under the additive model, against all subsets."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tinytrain.search.additive import Option, Point, pareto_front

GROUPS = st.lists(
    st.lists(st.tuples(st.integers(-3, 9), st.integers(0, 30)), max_size=4), max_size=5
)


def options(drawn: list[list[tuple[int, int]]]) -> list[list[Option[tuple[int, int]]]]:
    return [
        [Option((g, i), float(gain), cost) for i, (gain, cost) in enumerate(group)]
        for g, group in enumerate(drawn)
    ]


def brute_force(groups: list[list[Option[tuple[int, int]]]], budget: int) -> float:
    """The largest gain within a budget, over all combinations."""
    best = 0.0
    for combination in product(*([None, *group] for group in groups)):
        taken = [option for option in combination if option is not None]
        if sum(option.cost for option in taken) <= budget:
            best = max(best, sum(option.gain for option in taken))
    return best


@settings(max_examples=80, deadline=None)
@given(GROUPS, st.integers(0, 90))
def test_the_best_of_every_budget_is_that_of_all_combinations(
    drawn: list[list[tuple[int, int]]], budget: int
) -> None:
    groups = options(drawn)
    front = pareto_front(groups)
    best = front.best(budget)
    assert best is not None and front.gap == 0
    assert best.gain == brute_force(groups, budget) and best.cost <= budget
    for a, b in zip(front.points, front.points[1:], strict=False):
        assert a.cost < b.cost and a.gain < b.gain


@settings(max_examples=30, deadline=None)
@given(GROUPS, st.integers(0, 90))
def test_a_thinned_front_is_off_by_no_more_than_its_gap(
    drawn: list[list[tuple[int, int]]], budget: int
) -> None:
    groups = options(drawn)
    front = pareto_front(groups, limit=3)
    best = front.best(budget)
    assert best is not None
    assert best.gain >= brute_force(groups, budget) - front.gap - 1e-9


def test_a_point_has_one_option_a_group_and_none_without_gain() -> None:
    groups = [[Option("a", 1.0, 5), Option("b", 2.0, 9)], [Option("c", -1.0, 0)]]
    assert pareto_front(groups).points == (
        Point(0.0, 0, ()),
        Point(1.0, 5, ("a",)),
        Point(2.0, 9, ("b",)),
    )


def test_no_budget_below_nothing() -> None:
    assert pareto_front([]).best(-1) is None
