"""`tinytrain demo`: the handwritten digits whose camera was turned."""

from __future__ import annotations

import click

from tinytrain.boards import get_board
from tinytrain.cli.options import MAX_SEED, json_option
from tinytrain.cli.output import print_json, progress
from tinytrain.cli.plan import print_fit
from tinytrain.cli.simulate import print_simulation
from tinytrain.demo import data as digits
from tinytrain.memory.report import memory_map
from tinytrain.memory.text_map import render_text
from tinytrain.pipeline import RunOptions, Training, fit, simulate, start_run
from tinytrain.reader import read
from tinytrain.reader.dataset import dataset_from_arrays
from tinytrain.train import TrainOptions

BOARD = "mps2-an386"
SCHEME = "full"
CLASSES = 10

STORY = """\
A small network was trained on one half of scikit-learn's handwritten digits and quantized to int8.
Then its camera was mounted a quarter turn the wrong way. {train} turned images are there to learn
from; {test} others judge. The code that trains is the C that a board would run.
"""


@click.command(short_help="Watch a network adapt to a turned camera.")
@click.option("--epochs", type=click.IntRange(1), default=40, show_default=True)
@click.option("--seed", type=click.IntRange(0, MAX_SEED), default=0, show_default=True)
@json_option
def demo(epochs: int, seed: int, as_json: bool) -> None:
    """Watch a small network adapt to a turned camera: nothing to prepare, under a minute."""
    graph = read(digits.MODEL_PATH)
    dataset = dataset_from_arrays(digits.load(), graph[graph.inputs[0]], CLASSES)
    if not as_json:
        click.echo(STORY.format(train=len(dataset.x_train), test=len(dataset.x_test)))
    training = Training(digits.MODEL_PATH, SCHEME, TrainOptions(seed=seed))
    run = start_run(training, dataset, RunOptions(epochs=epochs, seed=seed))
    with progress("training") as advance:
        result = simulate(run, advance)
    sizes = fit(run.prepared, get_board(BOARD))
    if as_json:
        print_json({**result.as_dict(), "plan": sizes.as_dict()})
        return
    print_simulation(result)
    click.echo(f"\nThe memory of a training step, as on the board {BOARD}:\n")
    click.echo(render_text(memory_map(run.prepared.plan)))
    print_fit(sizes)
