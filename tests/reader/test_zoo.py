"""Every int8 model of the zoo reads, keeps the invariants, and has the operators of its file."""

from __future__ import annotations

from pathlib import Path

import pytest
import tflite

from tinytrain.analysis import summarize, verify
from tinytrain.reader import read

MODELS = {
    "har_cnn_int8": (11, (1, 6)),
    "mbv2-w0.35": (69, (1, 1000)),
    "mcunet-5fps": (57, (1, 1000)),
    "mlperf_ad01_int8": (10, (1, 640)),
    "mlperf_kws_ref_model": (13, (1, 12)),
    "mlperf_pretrainedResnet_quant": (16, (1, 10)),
    "mlperf_str_ww_ref_model": (11, (1, 3)),
    "mlperf_vww_96_int8": (31, (1, 2)),
    "tflm_hello_world_int8": (3, (1, 1)),
    "tflm_micro_speech_quantized": (4, (1, 4)),
}


@pytest.mark.zoo
@pytest.mark.parametrize("name", MODELS)
def test_model_reads(zoo: Path, name: str) -> None:
    operators, output = MODELS[name]
    path = zoo / "models" / f"{name}.tflite"
    graph = read(path)
    verify(graph)
    assert len(graph.ops) == operators
    assert graph[graph.outputs[0]].shape == output
    assert not graph.notes
    summary = summarize(graph)
    assert 0 < summary.weight_bytes < path.stat().st_size
    raw = tflite.Model.GetRootAs(path.read_bytes(), 0).Subgraphs(0)
    for tensor in graph.tensors.values():
        assert tensor.source is not None
        assert tuple(raw.Tensors(tensor.source).ShapeAsNumpy()) == tensor.shape


@pytest.mark.zoo
def test_known_cost(zoo: Path) -> None:
    graph = read(zoo / "models" / "mlperf_pretrainedResnet_quant.tflite")
    # 3x3 and 1x1 convolutions of ResNet8, and the classifier
    stage1 = 32 * 32 * 16 * 9 * (3 + 16 + 16)
    stage2 = 16 * 16 * 32 * (9 * 16 + 9 * 32 + 16)
    stage3 = 8 * 8 * 64 * (9 * 32 + 9 * 64 + 32)
    layers = [r for r in summarize(graph).rows if r.operator in ("CONV_2D", "FULLY_CONNECTED")]
    assert sum(row.macs for row in layers) == stage1 + stage2 + stage3 + 64 * 10
