"""Instructions of single layers, forward and backward, beside reference figures.

In: shapes, a board with an emulator, the set of kernels. Out: `KernelCount` values. A layer stands
in a small network that is trained as a whole, so that every kernel of it runs on real errors. It
builds firmware and runs it; it prints nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from codegen import generate, write_project
from tinytrain.bench.profile import op_counts, roomy_board
from tinytrain.boards import Board
from tinytrain.ir import Attr, Graph, Op, Role, Tensor
from tinytrain.numeric.quantize import Quant
from tinytrain.ops.base import definition
from tinytrain.pipeline import Prepared, RunOptions, Training, calibrate, prepare_graph
from tinytrain.reader.dataset import Dataset
from tinytrain.toolchain.elf import read_object_code_bytes
from tinytrain.toolchain.emulator import JOB_SUFFIX, emulate
from tinytrain.toolchain.job import training_job

CLASSES = 10
SAMPLES = 24
STEPS = 3
RATE = 0.01
LAYER = "layer"
_ACTIVATION = Quant((0.05,), -10)
_WINDOW: dict[str, Attr] = {"dilation": (1, 1), "padding": "SAME", "activation": "NONE"}


@dataclass(frozen=True)
class BenchLayer:
    """A layer, and what CMSIS-NN takes for its forward pass.

    Attributes:
        kind: "conv2d", "depthwise_conv2d" or "fully_connected".
        size, channels: of the square input; a fully connected layer takes all of it.
        out_channels, kernel, stride: of the layer.
        reference: (core, instructions), measured with the same compiler and emulator.
        trained: whether it is; kernels may lay out weights that stay as they are.
    """

    name: str
    kind: str
    size: int
    channels: int
    out_channels: int
    kernel: int = 1
    stride: int = 1
    reference: tuple[tuple[str, int], ...] = ()
    trained: bool = True


def _pair(m7: int, m4: int) -> tuple[tuple[str, int], ...]:
    return (("cortex-m7", m7), ("cortex-m4", m4))


LAYERS = (
    BenchLayer("1x1 16x16x64->64", "conv2d", 16, 64, 64, reference=_pair(2_132_441, 2_169_248)),
    BenchLayer("depthwise 3x3 16x16x64", "depthwise_conv2d", 16, 64, 64, 3,
               reference=_pair(1_249_839, 1_269_288)),
    BenchLayer("3x3 16x16x16->16", "conv2d", 16, 16, 16, 3,
               reference=_pair(1_377_672, 1_373_114)),
    BenchLayer("fully connected 1024->10", "fully_connected", 16, 4, 10),
    BenchLayer("fully connected 1024->10, frozen", "fully_connected", 16, 4, 10,
               reference=_pair(19_835, 19_831), trained=False),
    BenchLayer("depthwise 7x7/2 16x16x64", "depthwise_conv2d", 16, 64, 64, 7, 2),
)  # fmt: skip
"""What `tinytrain bench kernels` counts."""

LIMIT = 0.65
"""Of the reference, at most."""


@dataclass(frozen=True)
class KernelCount:
    """Instructions of one operator of a layer.

    Attributes:
        kernels: "board" for the set that the board's compiler chooses, or "portable".
        text_bytes: code of the kernel's own files, before unused parts are dropped; what kernels
            share is not in it.
        reference: of another project, where there is one.
    """

    layer: str
    operator: str
    board: str
    kernels: str
    macs: int
    instructions: int
    text_bytes: int
    reference: int | None

    @property
    def name(self) -> str:
        """Key in the file of kept counts."""
        return f"{self.layer}/{self.operator}/{self.board}/{self.kernels}"


def bench_layer(layer: BenchLayer, board: Board, *, portable: bool = False) -> list[KernelCount]:
    """Build, run and count every operator of a layer.

    Args:
        portable: take the portable kernels whatever the board has.

    Raises:
        ToolError: a tool is missing or failed.
    """
    roomy = roomy_board(board)
    prepared, data = _prepare(layer)
    job = training_job(data.x_train[:STEPS], data.y_train[:STEPS], RATE)
    flags = ("-DTT_PORTABLE",) if portable else ()
    with TemporaryDirectory(prefix="tinytrain-bench-") as folder:
        project = Path(folder) / "project"
        write_project(generate(prepared.plan, boards=(roomy,), name="bench"), project)
        report = emulate(project, roomy, job, profile=True, flags=flags)
        text = _text_bytes(project, board)
    graph = prepared.plan.graph
    reference = dict(layer.reference)
    found = []
    for op, count in zip(graph.ops, op_counts(graph, report.op_instructions), strict=True):
        if op.name != LAYER and not op.name.startswith(f"{LAYER}_"):
            continue
        kernel = definition(op).call(op, graph).kernel
        forward = reference.get(board.core) if op.name == LAYER else None
        found.append(
            KernelCount(layer.name, op.kind, board.name, "portable" if portable else "board",
                        count.macs, count.instructions, text.get(kernel, 0), forward)
        )  # fmt: skip
    return found


def layer_macs(layer: BenchLayer) -> dict[str, int]:
    """Operator -> multiply-accumulates of a layer's operators; nothing is built."""
    graph = _prepare(layer)[0].plan.graph
    return {
        op.kind: definition(op).macs(op, graph)
        for op in graph.ops
        if op.name == LAYER or op.name.startswith(f"{LAYER}_")
    }


def _text_bytes(project: Path, board: Board) -> dict[str, int]:
    """Kernel -> code bytes of its files."""
    sizes: dict[str, int] = {}
    build = project / ".pio" / "build" / f"{board.name}{JOB_SUFFIX}"
    for path in sorted(build.glob("lib*/tt_kernels/*.o")):
        kernel = path.name.split(".")[0]
        for suffix in ("_dsp", "_mve"):
            kernel = kernel.removesuffix(suffix)
        sizes[kernel] = sizes.get(kernel, 0) + read_object_code_bytes(path)
    return sizes


def _prepare(layer: BenchLayer) -> tuple[Prepared, Dataset]:
    rng = np.random.default_rng(1)
    graph = _network(layer, rng)
    shape = graph[graph.inputs[0]].shape
    x = np.clip(np.round(rng.normal(-10, 40, (SAMPLES, *shape[1:]))), -128, 127).astype(np.int8)
    y = np.arange(SAMPLES, dtype=np.int32) % CLASSES
    data = Dataset(x, y, x[:1], y[:1])
    training = Training(Path(LAYER), "full" if layer.trained else "head")
    return calibrate(prepare_graph(graph, training, x), data, RunOptions()), data


class _Network:
    """Operators one after the other, with random weights that keep values in range."""

    def __init__(self, shape: tuple[int, ...], rng: np.random.Generator) -> None:
        self.rng = rng
        self.last = Tensor("input", shape, "int8", Role.INPUT, _ACTIVATION)
        self.tensors = {"input": self.last}
        self.ops: list[Op] = []

    def add(self, kind: str, name: str, shape: tuple[int, ...], attrs: dict[str, Attr],
            weights: tuple[int, ...] = (), axis: int = 0) -> None:  # fmt: skip
        """Append an operator of one input; with weights it has a bias as well."""
        inputs = [self.last.name]
        if weights:
            inputs += self._weights(name, weights, axis)
        self.last = Tensor(f"{name}_output", shape, "int8", quant=_ACTIVATION)
        self.tensors[self.last.name] = self.last
        self.ops.append(Op(kind, name, tuple(inputs), (self.last.name,), attrs))

    def _weights(self, name: str, shape: tuple[int, ...], axis: int) -> list[str]:
        channels = shape[axis]
        terms = int(np.prod(shape)) // channels
        values = np.clip(np.round(self.rng.normal(0, 40, shape)), -127, 127).astype(np.int8)
        scales = (self.rng.uniform(0.7, 1.3, channels) / (40 * np.sqrt(terms))).astype(np.float32)
        bias = self.rng.integers(-1000, 1000, channels, dtype=np.int32)
        step = self.last.q.scale0
        for suffix, data, quant in (
            ("weights", values, Quant(tuple(scales.tolist()), 0, axis)),
            ("bias", bias, Quant(tuple((scales * np.float32(step)).tolist()), 0, 0)),
        ):
            tensor = Tensor(
                f"{name}_{suffix}", data.shape, data.dtype.name, Role.CONST, quant, data
            )
            self.tensors[tensor.name] = tensor
        return [f"{name}_weights", f"{name}_bias"]


def _network(layer: BenchLayer, rng: np.random.Generator) -> Graph:
    """A 1x1 convolution (so that the layer must make an input error), the layer, a classifier."""
    size, channels, out = layer.size, layer.channels, layer.out_channels
    net = _Network((1, size, size, channels), rng)
    unit: dict[str, Attr] = {**_WINDOW, "stride": (1, 1)}
    net.add("conv2d", "before", (1, size, size, channels), unit, (channels, 1, 1, channels))
    dense: dict[str, Attr] = {"activation": "NONE", "keep_num_dims": False, "weights_format": 0}
    if layer.kind == "fully_connected":
        terms = size * size * channels
        net.add("reshape", "flat", (1, terms), {"shape": (1, terms)})
        net.add(layer.kind, LAYER, (1, out), dense, (out, terms))
    else:
        made = -(-size // layer.stride)
        window: dict[str, Attr] = {**_WINDOW, "stride": (layer.stride, layer.stride)}
        k = layer.kernel
        if layer.kind == "conv2d":
            net.add(layer.kind, LAYER, (1, made, made, out), window, (out, k, k, channels))
        else:
            net.add(layer.kind, LAYER, (1, made, made, out), window, (1, k, k, out), 3)
        whole: dict[str, Attr] = {**_WINDOW, "padding": "VALID", "stride": (made, made),
                                  "kernel": (made, made)}  # fmt: skip
        net.add("average_pool2d", "pool", (1, 1, 1, out), whole)
        net.add("reshape", "flat", (1, out), {"shape": (1, out)})
    net.add("fully_connected", "after", (1, CLASSES), dense, (CLASSES, out))
    return Graph(LAYER, net.tensors, tuple(net.ops), ("input",), (net.last.name,))
