"""The end of the network: keep or replace the classifier, then attach what a loss reads.

In: a forward graph as read. Out: a graph whose output is class scores (cross-entropy) or int8
values (mean squared error). The classifier is found from the output backward through SOFTMAX (or
LOGISTIC, for binary cross-entropy) and RESHAPE: a fully connected layer, or a 1x1 convolution over
one position (as in the MCUNet family). Its int32 accumulators become the logits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinytrain.errors import InputError
from tinytrain.ir import Array, Graph, Op, Role, Tensor
from tinytrain.numeric.quantize import Quant
from tinytrain.train.options import TrainOptions

LOGIT_REACH = 8.0  # logits that weights at their bound reach for typical features
INITIAL_FRACTION = 0.1  # of the bound: fresh weights are uniform within it


def attach_loss(graph: Graph, options: TrainOptions, mean_square: Mapping[str, float]) -> Graph:
    """Return the inference graph of the model to be trained.

    Args:
        graph: forward graph as read; one output.
        options: loss, and the number of classes of a fresh classifier.
        mean_square: tensor -> mean of real^2 from calibration; may be empty.

    Raises:
        InputError: a fresh classifier is asked for where the graph has none to replace.
    """
    if len(graph.outputs) != 1:
        raise InputError(
            "several-outputs",
            "train",
            f"the model has {len(graph.outputs)} outputs, training needs exactly one",
            hint="export the model with a single output",
        )
    if options.loss == "mse":
        # branches that nobody reads are no layers of what is trained
        made = graph.producers.get(graph.outputs[0])
        if made is None:
            return graph
        cut = _cut(graph, made)
        return cut.with_ops(cut.ops) if len(cut.ops) < len(graph.ops) else graph
    binary = options.loss == "binary-cross-entropy"
    before, beta = _skip_scores(graph, graph.outputs[0], "logistic" if binary else "softmax")
    classifier = _classifier(graph, before)
    if classifier is None:
        if options.classes is not None:
            raise InputError(
                "no-classifier",
                "train",
                "no classifier to replace: the output does not come from a fully connected layer"
                " or a 1x1 convolution",
                hint="leave out the number of classes to train the model's own output",
            )
        if graph[before].shape[-1:] != (graph[before].size,):
            raise InputError(
                "several-rows",
                "train",
                f"cross-entropy needs one row of logits, the model gives {graph[before].shape}",
                hint="choose the loss mse, or a model that classifies the whole input",
            )
        _check_logits(graph[before].size, binary)
        return _with_scores(graph, before, graph[before].q.scales(graph[before].size), beta)
    _check_logits(_logits(options) or graph[before].size, binary)
    return _with_logits(graph, classifier, beta, options, mean_square)


def _logits(options: TrainOptions) -> int | None:
    """Of a fresh classifier; None keeps the model's own."""
    return 1 if options.classes and options.loss == "binary-cross-entropy" else options.classes


def _check_logits(count: int, binary: bool) -> None:
    if binary and count != 1:
        raise InputError(
            "several-logits",
            "train",
            f"binary cross-entropy needs a model with one logit, this one has {count}",
            hint="choose the loss cross-entropy, or --classes 2 for a fresh classifier",
        )
    if count < 2 and not binary:
        raise InputError(
            "one-class",
            "train",
            "cross-entropy over one class is 0 whatever the model says: nothing would be learned",
            hint="choose the loss binary-cross-entropy (one logit, labels 0 and 1) or mse, or give"
            " a number of classes for a fresh classifier",
        )


def _skip_scores(graph: Graph, name: str, kind: str) -> tuple[str, float]:
    """The tensor before a final SOFTMAX or LOGISTIC (and RESHAPEs after it), and its beta."""
    current = name
    while (op := graph.producers.get(current)) is not None:
        if op.kind == kind:
            return op.inputs[0], op.float("beta") if kind == "softmax" else 1.0
        if op.kind != "reshape":
            break
        current = op.inputs[0]
    return name, 1.0


def _classifier(graph: Graph, name: str) -> Op | None:
    """The layer that makes `name`, if its accumulators can be the logits."""
    while (op := graph.producers.get(name)) is not None and op.kind == "reshape":
        name = op.inputs[0]
    if op is None or op.attrs.get("activation", "NONE") != "NONE":
        return None
    out, weights = graph[op.outputs[0]], graph[op.inputs[1]] if len(op.inputs) > 1 else None
    if weights is None or out.size != out.shape[-1]:
        return None
    if op.kind == "fully_connected":
        return op
    pointwise = op.kind == "conv2d" and weights.shape[1:3] == (1, 1)
    return op if pointwise and graph[op.inputs[0]].shape[1:3] == (1, 1) else None


def _with_logits(
    graph: Graph,
    classifier: Op,
    beta: float,
    options: TrainOptions,
    mean_square: Mapping[str, float],
) -> Graph:
    x, old = graph[classifier.inputs[0]], graph[classifier.inputs[1]]
    features = old.shape[-1]
    assert old.data is not None
    if options.classes is None:
        classes = old.shape[0]
        quant = Quant(old.q.scale, 0, 0 if old.q.per_channel else None)
        data: Array = old.data.reshape(classes, features)
        bias = graph[classifier.inputs[2]].data if _has_bias(classifier) else None
    else:
        classes = _logits(options) or 0
        scale = fresh_weight_scale(x, features, mean_square)
        quant, data, bias = Quant((scale,)), _fresh_weights(classes, features, options.seed), None
    if bias is None:
        bias = np.zeros(classes, np.int32)
    weights = Tensor(
        graph.fresh_name("head_weights"), (classes, features), "int8", Role.CONST, quant, data
    )
    bias_tensor = Tensor(graph.fresh_name("head_bias"), (classes,), "int32", Role.CONST, None, bias)
    logits = Tensor(graph.fresh_name("logits"), (1, classes), "int32")
    head = Op("logits", "head", (x.name, weights.name, bias_tensor.name), (logits.name,))
    kept = [op for op in graph.ops if op.name != classifier.name]
    cut = _cut(graph.with_ops([*kept, head], [weights, bias_tensor, logits]), head)
    if options.classes is not None:
        beta = 1.0
    scales = np.float32(x.q.scale0) * quant.scales(classes)
    return _with_scores(cut, logits.name, scales, beta)


def _has_bias(op: Op) -> bool:
    return len(op.inputs) > 2 and bool(op.inputs[2])


def _cut(graph: Graph, last: Op) -> Graph:
    """Drop what does not lead to `last`."""
    needed = set(last.inputs)
    kept = [last]
    for op in reversed([op for op in graph.ops if op.name != last.name]):
        if needed.intersection(op.outputs):
            kept.append(op)
            needed.update(op.inputs)
    return replace(graph, ops=tuple(reversed(kept)), outputs=last.outputs)


def _with_scores(graph: Graph, logits: str, scales: Array, beta: float) -> Graph:
    """Append the softmax; `scales` of the logits are real, `beta` multiplies them in it."""
    tensor = graph[logits]
    scores = Tensor(graph.fresh_name("scores"), (max(2, tensor.size),), "float32")
    zero_point = tensor.q.zero_point if tensor.quant else 0
    op = Op(
        "class_scores",
        "class_scores",
        (logits,),
        (scores.name,),
        {"scales": _floats(np.float32(beta) * scales), "zero_point": zero_point, "beta": beta},
    )
    cut = graph
    if tensor.quant is not None:
        cut = _cut(graph, graph.producers[logits])
    whole = cut.with_ops([*cut.ops, op], [scores])
    return Graph(graph.name, whole.tensors, whole.ops, graph.inputs, (scores.name,), graph.notes)


def _floats(values: Array) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def expected_mean_square(tensor: Tensor) -> float:
    """Of real values, without data: an eighth of the quantized range is typical."""
    return (255 * tensor.q.scale0 / 8) ** 2


def fresh_weight_scale(x: Tensor, features: int, mean_square: Mapping[str, float]) -> float:
    """Scale of fresh classifier weights, such that +-127 suffices for confident logits."""
    square = mean_square.get(x.name, 0.0) or expected_mean_square(x)
    return float(np.float32(LOGIT_REACH / (127 * math.sqrt(square * features))))


def _fresh_weights(classes: int, features: int, seed: int) -> Array:
    bound = INITIAL_FRACTION * 127
    values = np.random.default_rng(seed).uniform(-bound, bound, (classes, features))
    weights: Array = np.rint(values).astype(np.int8)
    return weights
