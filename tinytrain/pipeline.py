"""The only file that knows the order of the stages.

    model.tflite -> read -> fold pads -> head, loss -> differentiate -> prune, split weights,
    mask bits, row chains -> plan -> generate -> simulator | emulator | project folder

In: paths and options. Out: frozen results. It prints nothing.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from codegen import generate as generate_files
from codegen import write_project
from codegen.program import build_program
from tinytrain.analysis.cost import graph_cost
from tinytrain.analysis.verify import verify
from tinytrain.boards import DEFAULT_STACK_BYTES, Board
from tinytrain.errors import InputError
from tinytrain.interp import mean_squares
from tinytrain.ir import Graph, Phase, Role, Tensor
from tinytrain.memory import Plan
from tinytrain.memory import plan as plan_memory
from tinytrain.memory.profile import LiveProfile, bound_in_any_order
from tinytrain.passes.chain_rows import chain_rows
from tinytrain.passes.fold_pad import fold_pad
from tinytrain.passes.mask_bits import keep_mask_bits
from tinytrain.passes.prune import prune
from tinytrain.passes.split_weights import split_where_it_saves
from tinytrain.reader import read
from tinytrain.reader.dataset import Dataset, read_dataset
from tinytrain.toolchain.emulator import emulate as emulate_project
from tinytrain.toolchain.job import training_job
from tinytrain.toolchain.simulator import Simulator
from tinytrain.toolchain.statistics import TensorStatistics, train_watched
from tinytrain.train import Training as Training
from tinytrain.train import TrainOptions, attach_loss, differentiate, parse_scheme
from tinytrain.train.diagnosis import diagnose, diagnose_tensors
from tinytrain.train.options import RunOptions as RunOptions
from tinytrain.train.schedule import learning_rates, sample_order

Array = npt.NDArray[Any]
Progress = Callable[[int, int], None]

CALIBRATION_SAMPLES = 16  # whose mean squares set rho and the scale of a fresh classifier
CALIBRATION_STEPS = 64  # that measure error ranges and step norms without learning, twice
# Rows are chained only where the arena is larger: on small images chains cost instructions.
ENOUGH_ARENA_BYTES = 64 * 1024
CODE_BYTES = 40 * 1024  # allowance for machine code in `plan`, which does not build
RUNTIME_BYTES = 1024  # allowance for .data and .bss beside the model's memory


@dataclass(frozen=True, eq=False)
class Prepared:
    """A training graph with its memory plan.

    Attributes:
        training: what was asked for.
        model: the forward graph as read.
        graph: the training graph.
        plan: its memory plan; `plan.graph` is `graph` in execution order.
    """

    training: Training
    model: Graph
    graph: Graph
    plan: Plan

    @property
    def input(self) -> Tensor:
        """The model's input."""
        return self.model[self.model.inputs[0]]

    @property
    def result(self) -> Tensor:
        """Class scores (float32) or values (int8)."""
        return self.graph[self.graph.outputs[0]]

    @property
    def batches(self) -> bool:
        """Whether gradients are accumulated over several samples."""
        return bool(self.graph.phase(Phase.APPLY))

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """The generated library without a board: path -> content."""
        return generate_files(self.plan)


def generate(prepared: Prepared, boards: Sequence[Board] = ()) -> dict[str, bytes]:
    """The project of a plan: path -> content. Without a board, only the libraries."""
    return generate_files(prepared.plan, boards=boards)


def prepare(training: Training, samples: Array | None = None, *, exact_s: float = 0.0) -> Prepared:
    """Read, differentiate and plan.

    Args:
        training: what to train.
        samples: int8 [N, ...] from the user's data for calibration; without them the mean
            squares of activations are estimated from their quantized ranges.
        exact_s: seconds for the exact search of arena offsets, where the short one of every plan
            did not end; at 0 the plan is the same on every machine.

    Raises:
        TinytrainError: as the stages say.
    """
    model = read(training.model)
    return prepare_graph(model, training, samples, exact_s=exact_s)


def prepare_graph(
    model: Graph, training: Training, samples: Array | None = None, *, exact_s: float = 0.0
) -> Prepared:
    """The same from a graph already read."""
    squares = mean_squares(model, samples[:CALIBRATION_SAMPLES]) if samples is not None else {}
    forward = attach_loss(fold_pad(model), training.options, squares)
    scheme = parse_scheme(training.scheme, forward)
    graph = prune(differentiate(forward, scheme, training.options, squares))
    planned = _plan_lowest(graph, exact_s)
    return Prepared(training, model, planned[0], planned[1])


def _plan_lowest(graph: Graph, exact_s: float) -> tuple[Graph, Plan]:
    """The training graph split and, where the arena is then smaller, in chains; its plan."""
    live_bytes = LiveProfile()
    pairs: list[tuple[Graph, Graph]] = []

    def finish(split: Graph) -> Graph:
        plain = keep_mask_bits(split)
        pairs.append((plain, chain_rows(plain, live_bytes, enough_bytes=ENOUGH_ARENA_BYTES)))
        return pairs[-1][1]

    chosen = split_where_it_saves(graph, finish, live_bytes)
    verify(chosen)
    best = chosen, plan_memory(chosen)
    plain = next(before for before, after in pairs if after is chosen)
    chained = any(op.kind == "row_chain" for op in chosen.ops)
    # Chains are chosen by live bytes in the given order; another order may do without them.
    if chained and bound_in_any_order(plain) <= best[1].arena_bytes:
        verify(plain)
        other = plan_memory(plain)
        if other.arena_bytes <= best[1].arena_bytes:
            best = plain, other
    if exact_s > 0 and best[1].gap_bytes:
        best = best[0], plan_memory(best[0], time_limit_s=exact_s)
    return best


def read_data(path: Path, model: Graph, options: TrainOptions) -> Dataset:
    """Read a data file for a model (see `reader.dataset`)."""
    output = None if options.labels else model[model.outputs[0]]
    classes = options.classes or max(2, model[model.outputs[0]].size)
    return read_dataset(path, model[model.inputs[0]], output=output, classes=classes)


# ---- does it fit? ----


@dataclass(frozen=True)
class Fit:
    """The sizes of a plan beside those of a board; bytes."""

    model: str
    board: str
    scheme: str
    arena_bytes: int
    lower_bound_bytes: int
    proven_bound_bytes: int
    gap_bytes: int
    inference_arena_bytes: int
    trained_bytes: int
    buffer_bytes: int
    stack_bytes: int
    sram_bytes: int
    board_sram_bytes: int
    flash_bytes: int
    board_flash_bytes: int
    macs_forward: int
    macs_backward: int

    @property
    def fits(self) -> bool:
        """Whether SRAM and flash suffice."""
        return (
            self.sram_bytes <= self.board_sram_bytes and self.flash_bytes <= self.board_flash_bytes
        )

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        fields = {k: v for k, v in vars(self).items() if not k.startswith("macs_")}
        macs = {"forward": self.macs_forward, "backward": self.macs_backward}
        return {**fields, "fits": self.fits, "macs": macs}


def fit(prepared: Prepared, board: Board) -> Fit:
    """Compare a plan with a board.

    SRAM is arena, states, buffers, stack and an allowance for the runtime; flash is constants,
    the states' initial values and an allowance for code. `emulate` measures both.
    """
    plan = prepared.plan
    cost = graph_cost(plan.graph)
    program = build_program(plan)
    memory = plan.arena_bytes + plan.state.state_bytes + plan.state.buffer_bytes
    return Fit(
        model=prepared.training.model.name,
        board=board.name,
        scheme=prepared.training.scheme_name,
        arena_bytes=plan.arena_bytes,
        lower_bound_bytes=plan.lower_bound_bytes,
        proven_bound_bytes=plan.proven_bound_bytes,
        gap_bytes=plan.gap_bytes,
        inference_arena_bytes=plan.inference_arena_bytes,
        trained_bytes=plan.state.state_bytes,
        buffer_bytes=plan.state.buffer_bytes,
        stack_bytes=DEFAULT_STACK_BYTES,
        sram_bytes=memory + DEFAULT_STACK_BYTES + RUNTIME_BYTES,
        board_sram_bytes=board.ram.bytes,
        flash_bytes=program.flash_bytes + CODE_BYTES,
        board_flash_bytes=board.flash.bytes,
        macs_forward=cost.macs(Phase.FORWARD),
        macs_backward=cost.macs(Phase.BACKWARD, Phase.APPLY),
    )


# ---- training runs ----


@dataclass(frozen=True, eq=False)
class Run:
    """A calibrated training graph with the steps to take.

    Attributes:
        prepared: with calibrated initial states.
        data: the samples.
        order: int32 [steps], indices into the training samples.
        rates: float32 [steps].
        seed: of stochastic rounding.
    """

    prepared: Prepared
    data: Dataset
    order: Array
    rates: Array
    seed: int


def start_run(
    training: Training, data: Path | Dataset, run: RunOptions, steps: int | None = None
) -> Run:
    """Read model and data, build the training graph, calibrate it.

    Args:
        steps: take only so many samples (whole batches), None for all epochs.
    """
    model = read(training.model)
    dataset = data if isinstance(data, Dataset) else read_data(data, model, training.options)
    prepared = calibrate(prepare_graph(model, training, dataset.x_train), dataset, run)
    batch = training.options.batch
    epochs = run.epochs
    if steps is not None:
        epochs = max(1, -(-steps // len(dataset.x_train)))
    order = sample_order(len(dataset.x_train), epochs, batch, run.seed)
    if steps is not None:
        order = order[: max(batch, steps // batch * batch)]
    rates = learning_rates(run.learning_rate, len(order), run.schedule, run.warmup)
    return Run(prepared, dataset, order, rates, run.seed)


def calibrate(prepared: Prepared, data: Dataset, run: RunOptions) -> Prepared:
    """Measure error ranges and step norms on some samples, and make them the initial states."""
    if len(prepared.graph.outputs) < 2:  # nothing is trained
        return prepared
    count = min(CALIBRATION_STEPS, len(data.x_train))
    simulator = Simulator(prepared.files)
    simulator.set_seed(run.seed)
    samples, targets = data.x_train[:count], data.y_train[:count]
    simulator.train(samples, targets, run.learning_rate, apply=False)
    # at rate 0 nothing moves, and ranges settle at the maximum over many samples
    simulator.train(samples, targets, 0.0)
    measured = prepared.plan.state.unpack(simulator.state())

    def adopt(tensor: Tensor) -> Tensor:
        if tensor.role is Role.STATE:
            return replace(tensor, data=measured[tensor.name])
        return tensor

    graph = prepared.graph.map_tensors(adopt)
    return Prepared(prepared.training, prepared.model, graph, prepared.plan.map_tensors(adopt))


@dataclass(frozen=True)
class Simulation:
    """What a training run in the host simulator did.

    Attributes:
        accuracy_before, accuracy_after: on the test samples; None with the mean squared error.
        loss_before, loss_after: mean squared error on the test samples; None with cross-entropy.
        loss: mean training loss of the last tenth of the steps.
        steps: samples trained on.
        samples_per_second: of training, on this host.
        state, state_sha256: the trained state, and its digest.
    """

    accuracy_before: float | None
    accuracy_after: float | None
    loss_before: float | None
    loss_after: float | None
    loss: float
    steps: int
    samples_per_second: float
    state_sha256: str
    state: bytes = field(repr=False)
    losses: tuple[float, ...] = field(repr=False)
    warnings: tuple[str, ...] = ()
    statistics: TensorStatistics | None = None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        document = {k: v for k, v in vars(self).items() if k not in ("state", "losses")}
        document["statistics"] = self.statistics.as_dict() if self.statistics else None
        return document


def simulate(run: Run, progress: Progress | None = None, looks: int = 0) -> Simulation:
    """Train in the host simulator.

    Args:
        progress: called with (steps done, steps).
        looks: steps at which statistics are taken; the run's bits stay the same.
    """
    data = run.data
    simulator = Simulator(run.prepared.files)
    simulator.set_seed(run.seed)
    simulator.set_batch(run.prepared.training.options.batch)
    before = _evaluate(simulator, run.prepared, data)
    started = time.perf_counter()
    given = (data.x_train, data.y_train, run.rates)
    statistics = None
    if looks:
        batch = run.prepared.training.options.batch
        losses, statistics = train_watched(
            simulator, *given, run.order, batch=batch, seed=run.seed, looks=looks, progress=progress
        )
    else:
        losses = simulator.train(*given, order=run.order, progress=progress)
    seconds = time.perf_counter() - started
    after = _evaluate(simulator, run.prepared, data)
    state = simulator.state()
    tail = losses[-max(1, len(losses) // 10) :]
    labels = run.prepared.training.options.labels
    return Simulation(
        accuracy_before=before if labels else None,
        accuracy_after=after if labels else None,
        loss_before=None if labels else before,
        loss_after=None if labels else after,
        loss=float(np.mean(tail)),
        steps=len(losses),
        samples_per_second=len(losses) / max(seconds, 1e-9),
        state_sha256=hashlib.sha256(state).hexdigest(),
        state=state,
        losses=tuple(float(v) for v in losses),
        warnings=_warnings(run, losses, statistics),
        statistics=statistics,
    )


def _warnings(run: Run, losses: Array, statistics: TensorStatistics | None) -> tuple[str, ...]:
    """What went wrong, and what to change."""
    labels = run.prepared.training.options.labels
    classes = run.prepared.result.size if labels else None
    found = diagnose(losses, classes, float(run.rates.max(initial=0.0)))
    return tuple(found + (diagnose_tensors(*statistics.fractions()) if statistics else []))


def _evaluate(simulator: Simulator, prepared: Prepared, data: Dataset) -> float:
    """Accuracy, or mean squared error in real units."""
    results = simulator.infer(data.x_test)
    if prepared.training.options.labels:
        return float(np.mean(np.argmax(results, axis=1) == data.y_test))
    difference = results.astype(np.float64) - data.y_test.reshape(results.shape)
    return float(np.mean((difference * prepared.result.q.scale0) ** 2))


# ---- firmware ----


def compile_project(
    prepared: Prepared, boards: Sequence[Board], directory: Path, name: str | None = None
) -> Mapping[str, bytes]:
    """Write the PlatformIO project; returns its files.

    Args:
        boards: its environments, at least one; the first is built by default.
        name: prefix of files and symbols; that of the model's file unless given.

    Raises:
        InputError: the model does not fit one of the boards, the name cannot be one, or the
            folder holds something else.
    """
    for sizes in (fit(prepared, board) for board in boards):
        if not sizes.fits:
            raise does_not_fit(sizes)
    files = generate_files(
        prepared.plan, boards=boards, name=name, scheme=prepared.training.scheme_name
    )
    write_project(files, directory)
    return files


def does_not_fit(sizes: Fit) -> InputError:
    """The error that says what is too large, and by how much."""
    over = []
    if sizes.sram_bytes > sizes.board_sram_bytes:
        over.append(f"SRAM {sizes.sram_bytes:,} of {sizes.board_sram_bytes:,} bytes")
    if sizes.flash_bytes > sizes.board_flash_bytes:
        over.append(f"flash {sizes.flash_bytes:,} of {sizes.board_flash_bytes:,} bytes")
    return InputError(
        "does-not-fit",
        "plan",
        f"{sizes.model} with scheme {sizes.scheme} does not fit {sizes.board}: {'; '.join(over)}",
        hint="train fewer layers (see: tinytrain plan), or choose a larger board",
    )


@dataclass(frozen=True)
class Emulation:
    """What a training run in QEMU did; instructions are exact, cycles are not modelled."""

    instructions_infer: int | None
    instructions_train_step: int | None
    stack_bytes: int
    data_bss_bytes: int
    flash_bytes: int
    code_bytes: int
    state_sha256: str
    steps: int
    loss: float

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        fields = {k: v for k, v in vars(self).items() if not k.startswith("instructions_")}
        counts = {"infer": self.instructions_infer, "train_step": self.instructions_train_step}
        return {"instructions": counts, **fields}


def emulate(
    run: Run,
    board: Board,
    directory: Path,
    on_line: Callable[[str], None] | None = None,
) -> Emulation:
    """Build the firmware with PlatformIO in `directory`, run it in QEMU on the run's samples.

    Args:
        on_line: called with each line that the build prints.

    Raises:
        InputError: the model does not fit. ToolError: a tool is missing or failed.
    """
    compile_project(run.prepared, (board,), directory)
    data = run.data
    job = training_job(
        data.x_train,
        data.y_train,
        run.rates,
        order=run.order,
        seed=run.seed,
        batch=run.prepared.training.options.batch if run.prepared.batches else 0,
        infer=data.x_test[:1],
    )
    report = emulate_project(directory, board, job, on_line=on_line)
    tail = report.losses[-max(1, len(report.losses) // 10) :]
    return Emulation(
        instructions_infer=report.instructions_infer,
        instructions_train_step=report.instructions_train_step,
        stack_bytes=report.stack_bytes,
        data_bss_bytes=report.data_bss_bytes,
        flash_bytes=report.flash_bytes,
        code_bytes=report.code_bytes,
        state_sha256=hashlib.sha256(report.state).hexdigest(),
        steps=len(run.order),
        loss=float(np.mean(tail)),
    )
