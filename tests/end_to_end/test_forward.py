"""The forward pass is TFLite's, bit for bit, in every tensor of every model of the zoo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.end_to_end.cases import CASES, Case, case_id
from tests.support.referee import Panel
from tinytrain.interp import Interpreter
from tinytrain.reader import read

INPUTS = 20


@pytest.mark.zoo
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_every_tensor_equals_the_reference_kernels(case: Case, zoo: Path) -> None:
    content = (zoo / "models" / f"{case.model}.tflite").read_bytes()
    graph = read(content)
    interpreter, panel = Interpreter(graph), Panel(content)
    made = {name for op in graph.ops for name in op.outputs}
    for sample in case.inputs(zoo, INPUTS):
        wanted = panel.run(sample.reshape(graph[graph.inputs[0]].shape))
        values = interpreter.infer(sample)
        judged = [name for name in made if graph[name].source in wanted]
        assert len(judged) == len(made), "the referees give no value for some tensors"
        for name in judged:
            source = graph[name].source
            assert source is not None
            expected = wanted[source].reshape(values[name].shape)
            assert np.array_equal(expected, values[name]), name
