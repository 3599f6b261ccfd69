from __future__ import annotations

import pytest

from tests.support.random_plans import random_plan, random_training_graph
from tinytrain.memory.profile import bound_in_any_order


@pytest.mark.parametrize("seed", range(12))
def test_no_order_is_below_the_bound(seed: int) -> None:
    bound = bound_in_any_order(random_training_graph(seed))
    assert 0 < bound <= random_plan(seed).lower_bound_bytes
