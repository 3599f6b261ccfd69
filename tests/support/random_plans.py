"""Random graphs shaped like training steps, for the tests of the memory planner.

They are made of operators that exist for the planner only: kinds ``test_...`` with the traits of
real ones (in place, alias, scratch) and no arithmetic. Run as a script it prints how far the
planner's arenas are from the lower bound:

    python -m tests.support.random_plans [COUNT] [TIME_LIMIT_S]
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from tinytrain.ir import Array, Graph, Op, Phase, Role, Tensor
from tinytrain.memory import Plan, plan
from tinytrain.ops.base import KernelCall, OpDef, Step


class _TestOp(OpDef):
    """An operator with memory traits only."""

    def shape(self, op: Op, graph: Graph) -> tuple[tuple[int, ...], ...]:
        """As declared."""
        return tuple(graph[name].shape for name in op.outputs)

    def run(self, op: Op, graph: Graph, inputs: Sequence[Array], step: Step) -> tuple[Array, ...]:
        """There are no numbers: only the memory of such an operator is planned."""
        raise AssertionError("an operator of memory traits only was run")

    def call(self, op: Op, graph: Graph) -> KernelCall:
        """Only the scratch counts; attribute `scratch`, bytes."""
        del graph
        nbytes = op.attrs.get("scratch", 0)
        assert isinstance(nbytes, int)
        return KernelCall(f"tt_{op.kind}", {}, {}, scratch_bytes=nbytes)


class TestPlain(_TestOp):
    """Reads all, then writes."""

    __test__ = False
    kind = "test_plain"


class TestConcat(_TestOp):
    """Reads all, then writes; each part has an error of its own."""

    __test__ = False
    kind = "test_concat"


class TestUnary(_TestOp):
    """Element by element on input 0."""

    __test__ = False
    kind = "test_unary"
    in_place = ((0, 0),)


class TestBinary(_TestOp):
    """Element by element on two inputs."""

    __test__ = False
    kind = "test_binary"
    in_place = ((0, 0), (1, 0))


class TestReshape(_TestOp):
    """Moves no data."""

    __test__ = False
    kind = "test_reshape"
    alias = True


@dataclass
class GraphBuilder:
    """Writes down tensors and operators by name."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)

    def tensor(self, name: str, nbytes: int, role: Role = Role.ACTIVATION) -> str:
        """Declare an int8 vector."""
        self.tensors[name] = Tensor(name, (nbytes,), "int8", role)
        return name

    def op(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        phase: Phase = Phase.FORWARD,
        scratch: int = 0,
    ) -> None:
        """Append an operator ``<kind>_<number>``."""
        name = f"{kind}_{len(self.ops)}"
        attrs = {"scratch": scratch} if scratch else {}
        self.ops.append(Op(f"test_{kind}", name, tuple(inputs), tuple(outputs), attrs, phase))

    def graph(self, outputs: Sequence[str]) -> Graph:
        """All that was written down."""
        inputs = tuple(n for n, t in self.tensors.items() if t.role is Role.INPUT)
        return Graph("random", self.tensors, tuple(self.ops), inputs, tuple(outputs))


@dataclass(frozen=True)
class _Layer:
    """A forward operator with what its backward operators need."""

    kind: str
    inputs: tuple[str, ...]
    output: str
    saved: str  # what the weight gradient reads
    trained: str  # "", "bias", "weights"


class _Network:
    """A random residual network of convolutions, with its training step."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.builder = GraphBuilder()
        self.layers: list[_Layer] = []

    def build(self) -> Graph:
        """Forward operators, loss, then backward operators from the last layer to the first."""
        rng, builder = self.rng, self.builder
        # Half of the networks keep their resolution, so that the peak may lie anywhere.
        shrinks = rng.random() < 0.5
        side, channels = rng.choice((12, 24, 32, 48, 64, 96)), rng.choice((3, 8, 16))
        x = builder.tensor("input", side * side * channels, Role.INPUT)
        first_trained = rng.random() ** 2
        blocks = rng.randint(2, 14) if shrinks else rng.randint(2, 22)
        for block in range(blocks):
            trains = block >= first_trained * blocks
            if rng.random() < 0.3 and side > 4 and shrinks:
                side = (side + 1) // 2
                channels = min(256, int(channels * rng.choice((1.5, 2))))
                x = self._layer("plain", (x,), side * side * channels, trains)
            elif rng.random() < 0.6:
                x = self._residual(x, side, channels, trains)
            elif rng.random() < 0.3:
                channels = rng.randint(8, 96)
                x = self._branches(x, side, channels, trains)
            else:
                channels = max(8, min(256, int(channels * rng.choice((0.75, 1, 1, 1.5)))))
                x = self._layer("plain", (x,), side * side * channels, trains)
            if rng.random() < 0.2:
                x = self._layer("unary", (x,), builder.tensors[x].nbytes, False)
        pooled = self._layer("plain", (x,), channels, False)
        flat = self._layer("reshape", (pooled,), channels, False)
        logits = self._layer("plain", (flat,), rng.randint(2, 100), True)
        self._backward(logits)
        return builder.graph([logits])

    def _layer(self, kind: str, inputs: tuple[str, ...], nbytes: int, trains: bool) -> str:
        rng, builder = self.rng, self.builder
        index = len(self.layers)
        output = builder.tensor(f"t{index}", nbytes)
        trained = rng.choice(("bias", "weights", "weights")) if trains and kind == "plain" else ""
        operands = inputs
        if kind == "plain":
            role = Role.STATE if trained == "weights" else Role.CONST
            operands = (*inputs, builder.tensor(f"w{index}", rng.randint(8, 4096), role))
        scratch = rng.choice((0, rng.randint(16, 2048))) if kind == "plain" else 0
        builder.op(kind, operands, (output,), scratch=scratch)
        saved = inputs[0]
        if trained == "weights" and rng.random() < 0.5:
            saved = builder.tensor(f"saved{index}", -(-builder.tensors[saved].nbytes // 4))
            builder.op("plain", (inputs[0],), (saved,))
        self.layers.append(_Layer(kind, operands, output, saved, trained))
        return output

    def _residual(self, x: str, side: int, channels: int, trains: bool) -> str:
        area = side * side
        wide = channels * self.rng.choice((1, 2, 3, 4, 6))
        y = self._layer("plain", (x,), area * wide, trains)
        y = self._layer("plain", (y,), area * wide, trains)
        y = self._layer("plain", (y,), area * channels, trains)
        return self._layer("binary", (y, x), area * channels, False)

    def _branches(self, x: str, side: int, channels: int, trains: bool) -> str:
        area = side * side
        count = self.rng.randint(2, 4)
        widths = [max(1, channels // count)] * (count - 1)
        widths.append(channels - sum(widths))
        ends: list[str] = []
        for width in widths:
            y = x
            for _ in range(self.rng.randint(1, 2)):
                inner = area * self.rng.randint(max(1, width // 2), 2 * width)
                y = self._layer("plain", (y,), inner, trains)
            ends.append(self._layer("plain", (y,), area * width, trains))
        return self._layer("concat", tuple(ends), area * channels, False)

    def _backward(self, logits: str) -> None:
        builder = self.builder
        seed = builder.tensor("error_seed", builder.tensors[logits].nbytes)
        builder.op("unary", (logits,), (seed,), Phase.BACKWARD)
        errors: dict[str, list[str]] = {logits: [seed]}
        needed = self._needed()
        for index in reversed(range(len(self.layers))):
            layer = self.layers[index]
            if layer.output not in errors or not (layer.trained or needed & set(layer.inputs)):
                continue
            error = self._sum(errors[layer.output], f"error_sum{index}")
            self._layer_backward(index, layer, error, errors, needed)

    def _needed(self) -> set[str]:
        """Tensors whose error something upstream wants."""
        needed: set[str] = set()
        for layer in self.layers:
            if layer.trained or needed & set(layer.inputs):
                needed.add(layer.output)
        return needed

    def _sum(self, errors: list[str], name: str) -> str:
        total = errors[0]
        for i, other in enumerate(errors[1:]):
            result = self.builder.tensor(f"{name}_{i}", self.builder.tensors[total].nbytes)
            self.builder.op("binary", (total, other), (result,), Phase.BACKWARD)
            total = result
        return total

    def _layer_backward(
        self, index: int, layer: _Layer, error: str, errors: dict[str, list[str]], needed: set[str]
    ) -> None:
        rng, builder, phase = self.rng, self.builder, Phase.BACKWARD
        nbytes = builder.tensors[error].nbytes
        if layer.kind == "plain" and rng.random() < 0.5:
            masked = builder.tensor(f"masked{index}", nbytes)
            saved = (layer.output,) if rng.random() < 0.3 else ()
            builder.op("unary", (error, *saved), (masked,), phase)
            error = masked
        for i, name in enumerate(layer.inputs):
            if name not in needed:
                continue
            grown = builder.tensor(f"error{index}_{i}", builder.tensors[name].nbytes)
            kind = {"binary": "unary"}.get(layer.kind, layer.kind)
            frozen = (layer.inputs[1],) if layer.kind == "plain" else ()
            scratch = rng.choice((0, rng.randint(16, 4096))) if layer.kind == "plain" else 0
            builder.op(kind, (error, *frozen), (grown,), phase, scratch)
            errors.setdefault(name, []).append(grown)
        if layer.trained == "weights":
            x, weights = layer.saved, layer.inputs[1]
            builder.op("plain", (x, error, weights), (weights,), phase, rng.choice((0, 256)))
        if layer.trained:
            bias = builder.tensor(f"b{index}", 4 * rng.randint(1, 64), Role.STATE)
            builder.op("plain", (error, bias), (bias,), phase)


def random_training_graph(seed: int) -> Graph:
    """A graph of 10 to about 300 operators; the same for the same seed."""
    return _Network(random.Random(seed)).build()


@cache
def random_plan(seed: int) -> Plan:
    """Its plan, made once."""
    return plan(random_training_graph(seed))


@dataclass(frozen=True)
class Result:
    """How one graph was planned."""

    seed: int
    plan: Plan
    seconds: float

    @property
    def ratio(self) -> float:
        """Arena over lower bound."""
        return self.plan.arena_bytes / self.plan.lower_bound_bytes


def measure(count: int, time_limit_s: float) -> list[Result]:
    """Plan the graphs of seeds 0 to `count`."""
    results: list[Result] = []
    for seed in range(count):
        graph = random_training_graph(seed)
        start = time.perf_counter()
        made = plan(graph, time_limit_s=time_limit_s)
        results.append(Result(seed, made, time.perf_counter() - start))
    return results


def main(arguments: Sequence[str]) -> None:
    """Print the figures, and the graphs that miss the bound."""
    count = int(arguments[0]) if arguments else 200
    time_limit_s = float(arguments[1]) if len(arguments) > 1 else 0.0
    results = measure(count, time_limit_s)
    ratios = [r.ratio for r in results]
    seconds = [r.seconds for r in results]
    print(
        f"{count} graphs: mean ratio {sum(ratios) / count:.5f}, worst {max(ratios):.4f}, "
        f"{sum(r == 1 for r in ratios)} at the bound, "
        f"{sum(r.plan.proven for r in results)} proven, "
        f"seconds mean {sum(seconds) / count:.3f}, worst {max(seconds):.3f}"
    )
    for r in sorted(results, key=lambda r: -r.ratio):
        if r.ratio > 1:
            print(
                f"  seed {r.seed}: {r.ratio:.4f} ({r.plan.arena_bytes} over "
                f"{r.plan.lower_bound_bytes}), {len(r.plan.buffers)} buffers, {r.plan.method}, "
                f"{r.seconds:.2f} s"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
