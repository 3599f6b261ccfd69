"""Damaged and malicious files give our error or a sound graph; never another exception, no hang."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import numpy as np
import pytest

import tinytrain
from tests.reader.models import every_operator, finish, image
from tests.support.mutate import mutate
from tests.support.tflite_builder import Builder
from tests.support.tflite_writer import OpSpec, QuantSpec, TensorSpec, write_model
from tinytrain.analysis import verify
from tinytrain.errors import InputError
from tinytrain.reader import read
from tinytrain.reader.flatbuffer import MAX_FILE_BYTES

FILES = 2_000
SEED = 20_240
SECONDS_A_FILE = 5.0
QUANT = QuantSpec((0.1,), (0,))
ZOO_BASES = ("tflm_hello_world_int8", "tflm_micro_speech_quantized", "har_cnn_int8")


def bases() -> dict[str, bytes]:
    """Small sound models: built ones, the demo's, and the zoo's where it is there."""
    found = {"every operator": every_operator()}
    folder = Path(tinytrain.__path__[0])
    zoo = Path(os.environ.get("TINYTRAIN_ZOO", folder.parent.parent / "shared" / "zoo")) / "models"
    paths = [folder / "demo" / "digits.tflite", *(zoo / f"{n}.tflite" for n in ZOO_BASES)]
    return found | {path.stem: path.read_bytes() for path in paths if path.is_file()}


def check(label: str, data: bytes) -> bool:
    """Read one file; return whether it was accepted."""
    start = time.monotonic()
    try:
        graph = read(data)
    except InputError:
        accepted = False
    except Exception as error:
        pytest.fail(f"{label}: {type(error).__name__}: {error}")
    else:
        verify(graph)
        accepted = True
    assert time.monotonic() - start < SECONDS_A_FILE, label
    return accepted


def test_mutated_models() -> None:
    sound = bases()
    for name, data in sound.items():
        assert check(name, data), name
    accepted = [check(label, data) for label, data in mutate(sound, FILES, SEED, structure=4096)]
    # the mutations must neither all be harmless nor all be fatal
    assert FILES // 20 < sum(accepted) < FILES * 19 // 20


@pytest.mark.parametrize("length", [0, 1, 4, 7, 8, 12, 100])
def test_short_files(length: int) -> None:
    with pytest.raises(InputError):
        read(every_operator()[:length])


def test_other_files() -> None:
    for data in (b"\x89PNG\r\n\x1a\n" + bytes(99), b"TFL3" * 50, bytes(1000)):
        with pytest.raises(InputError):
            read(data)


def test_large_file() -> None:
    data = every_operator()
    with pytest.raises(InputError) as caught:
        read(data + bytes(MAX_FILE_BYTES + 1 - len(data)))
    assert caught.value.code == "model-too-large"


@pytest.mark.parametrize("root", [0, 3, 0x7FFFFFFF, 0xFFFFFFFF, 8])
def test_root_offset(root: int) -> None:
    data = bytearray(every_operator())
    struct.pack_into("<I", data, 0, root)
    assert not check(f"root {root}", bytes(data))


def _broken(
    tensors: list[TensorSpec], ops: list[OpSpec], inputs: list[int], outputs: list[int]
) -> InputError:
    with pytest.raises(InputError) as caught:
        read(write_model(tensors, ops, inputs, outputs))
    return caught.value


TWO = [TensorSpec("x", (1, 8), "int8", QUANT), TensorSpec("y", (1, 8), "int8", QUANT)]


@pytest.mark.parametrize(
    ("ops", "inputs", "outputs"),
    [
        ([OpSpec("RELU", (7,), (1,))], [0], [1]),
        ([OpSpec("RELU", (-2,), (1,))], [0], [1]),
        ([OpSpec("RELU", (0,), (-1,))], [0], [1]),
        ([OpSpec("RELU", (1,), (1,))], [0], [1]),
        ([OpSpec("RELU", (0,), (0,))], [0], [0]),
        ([OpSpec("RELU", (0,), (1,)), OpSpec("RELU", (0,), (1,))], [0], [1]),
        ([OpSpec("RELU", (0,), (1,))], [0], [5]),
        ([OpSpec("RELU", (0,), (1,))], [0, 0], [1]),
        ([OpSpec("RELU", (0,), (1,))], [-1], [1]),
        ([OpSpec("RELU", (), (1,))], [0], [1]),
        ([OpSpec("RELU", (0,), ())], [0], [1]),
        ([OpSpec("RELU", (-1,), (1,))], [0], [1]),
        ([OpSpec("CONV_2D", (0,), (1,), 1, "Conv2DOptions")], [0], [1]),
        ([OpSpec("CONV_2D", (0, 0), (1,), 1, "AddOptions")], [0], [1]),
        ([OpSpec("SOFTMAX", (0,), (1,))], [0], [1]),
        ([], [0], [1]),
        ([], [0], [0]),
        ([], [], []),
    ],
)
def test_broken_structure(ops: list[OpSpec], inputs: list[int], outputs: list[int]) -> None:
    assert _broken(TWO, ops, inputs, outputs).code


def test_cycle() -> None:
    tensors = [*TWO, TensorSpec("z", (1, 8), "int8", QUANT)]
    ops = [OpSpec("ADD", (0, 2), (1,), 1, "AddOptions"), OpSpec("RELU", (1,), (2,))]
    assert _broken(tensors, ops, [0], [2]).code == "corrupt-model"


def test_stored_shape_must_follow_from_the_operator() -> None:
    tensors = [TWO[0], TensorSpec("y", (1, 9), "int8", QUANT)]
    assert _broken(tensors, [OpSpec("RELU", (0,), (1,))], [0], [1]).code == "shape-mismatch"


@pytest.mark.parametrize(
    "shape", [(1, 2**30, 2**30), (1, 65536, 65536), (2**31 - 1,) * 8, (1, 2**24, 2)]
)
def test_absurd_shapes(shape: tuple[int, ...]) -> None:
    tensors = [TensorSpec("x", shape, "int8", QUANT), TensorSpec("y", shape, "int8", QUANT)]
    assert _broken(tensors, [OpSpec("RELU", (0,), (1,))], [0], [1]).code == "unsupported-model"


def test_constant_shorter_than_its_shape() -> None:
    b = Builder()
    x = image(b)
    data = finish(b, b.add(x, b.constant("c", image_data(), 0.1), out_scale=0.1))
    shape = struct.pack("<5i", 4, 1, 8, 8, 4)
    places = [i for i in range(len(data)) if data.startswith(shape, i)]
    assert len(places) == 3
    for place in places:
        longer = data[: place + 12] + struct.pack("<i", 9) + data[place + 16 :]
        assert not check(f"shape at {place}", longer)


def image_data() -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    """A constant as large as `image`."""
    return np.zeros((1, 8, 8, 4), np.int8)


def test_shared_tables_cost_bounded_time() -> None:
    """A 90 KB file: 1,000 references to one graph, with 20,000 references to one tensor."""
    file = bytearray(8)
    file[4:8] = b"TFL3"

    def put(data: bytes) -> int:
        file.extend(data)
        return len(file) - len(data)

    def refer(place: int, target: int) -> None:
        struct.pack_into("<I", file, place, target - place)

    def table(slots: int, used: int) -> int:
        """A table with one offset field, in slot `used`; return its position."""
        fields = [4 if slot == used else 0 for slot in range(slots)]
        vtable = put(struct.pack(f"<{2 + slots}H", 4 + 2 * slots, 8, *fields))
        return put(struct.pack("<iI", len(file) - vtable, 0))

    def list_of_one(count: int, owner: int) -> int:
        """The owner's vector; return the place of its first entry."""
        start = put(struct.pack("<I", count) + bytes(4 * count))
        refer(owner + 4, start)
        return start + 4

    model = table(3, 2)
    refer(0, model)
    graphs = list_of_one(1000, model)
    graph = table(1, 0)
    tensors = list_of_one(20_000, graph)
    tensor = table(0, 0)
    for entries, count, target in ((graphs, 1000, graph), (tensors, 20_000, tensor)):
        for place in range(entries, entries + 4 * count, 4):
            refer(place, target)
    start = time.monotonic()
    with pytest.raises(InputError) as caught:
        read(bytes(file))
    assert "lists have more than" in caught.value.message
    assert time.monotonic() - start < SECONDS_A_FILE


def test_many_tensors_of_one_buffer_share_memory() -> None:
    b = Builder()
    y = image(b)
    c = b.constant("c", image_data(), 0.1)
    for _ in range(3):
        y = b.add(y, c, out_scale=0.1)
    graph = read(finish(b, y))
    constants = [t.data for t in graph.tensors.values() if t.data is not None]
    assert len(constants) == 1
    assert not constants[0].flags.writeable
