# SPDX-License-Identifier: Apache-2.0
"""The accuracy of a whole network with the narrower weights of an extension."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import vdla
from vdla.hardware.config import Config
from vdla.hardware.fpga.parts import part_of_preset
from vdla.runtime.studies.accuracy import AccuracyJob, NetworkAccuracy
from vdla.runtime.studies.added_area import AddedArea
from vdla.runtime.studies.layers import EvaluateError, OperandTypes
from vdla.runtime.studies.measure import LayerCost, LayerOutcome
from vdla.runtime.studies.report import report_of
from vdla.runtime.studies.verdict import ExtensionVerdict, LayerVerdict, with_accuracy

TINY = Config.preset("tiny")
INT8, INT4 = OperandTypes("int8", "int8"), OperandTypes("int8", "int4")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("vdla.runtime.studies.accuracy.user_cache", lambda kind: tmp_path / kind)
    return tmp_path / "evaluate"


def model() -> bytes:
    """Two convolutions of random weights, and a product."""
    rng = np.random.default_rng(0)
    shapes = {"w": (4, 4, 3, 3), "v": (4, 4, 1, 1), "m": (144, 5)}
    constants = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, rng.standard_normal(shape).astype(np.float32).ravel())
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Conv", ["a", "v"], ["b"], name="second", kernel_shape=[1, 1]),
        helper.make_node("Flatten", ["b"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"], name="last"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 4, 6, 6]), ("y", [1, 5]))
    )
    content: bytes = helper.make_model(
        helper.make_graph(nodes, "net", [x], [y], constants), opset_imports=[helper.make_opsetid("", 21)]
    ).SerializeToString()
    return content


def job(rows: int = 64, calls: list[bytes] | None = None) -> AccuracyJob:
    content, calls = model(), [] if calls is None else calls
    data = np.random.default_rng(1).standard_normal((rows, 4, 6, 6)).astype(np.float32)

    def read() -> Any:
        calls.append(content)
        return content

    return AccuracyJob(content, read, lambda made: [{"x": data}])


def verdict(types: OperandTypes, *names: str) -> ExtensionVerdict:
    """The extension is used in the layers of these names, and in no other."""
    cost = LayerCost(
        cycles=1,
        host_cycles=0,
        busy_cycles=1,
        bytes_read=1,
        bytes_written=1,
        instructions=1,
        stream_bytes=1,
        mapping="mine",
        needed=1.0,
    )
    none = LayerOutcome(None, "why")
    layers = tuple(
        LayerVerdict(
            name=name,
            count=1,
            steps=1,
            least_cycles=1.0,
            before=none,
            after=LayerOutcome(cost) if name in names else none,
            accuracy=None,
        )
        for name in ("conv 3x3 4>4 6x6", "conv 1x1 4>4 6x6", "dense 144>5 1")
    )
    return ExtensionVerdict(
        before=TINY,
        after=TINY,
        added=(),
        types_before=INT8,
        types_after=types,
        steps_before=16,
        steps_after=32,
        trials=0,
        part=part_of_preset("tiny"),
        area=AddedArea(None),
        layers=layers,
    )


def network_accuracy(job: AccuracyJob, verdict: ExtensionVerdict) -> NetworkAccuracy:
    found = with_accuracy(verdict, job).network
    assert found is not None
    return found


def test_layers_that_use_the_extension_have_its_weights() -> None:
    one = network_accuracy(job(), verdict(INT4, "conv 3x3 4>4 6x6"))
    both = network_accuracy(job(), verdict(INT4, "conv 3x3 4>4 6x6", "dense 144>5 1"))
    assert (one.samples, one.narrower, one.layers) == (32, 1, 3) and both.narrower == 2
    assert one.before == both.before
    assert 0 < one.before.error < 0.03 < one.after.error < both.after.error < 0.5
    assert one.before.agreement == 1


def test_without_narrower_weights_nothing_changes() -> None:
    for found in (verdict(INT4), verdict(INT8, "conv 3x3 4>4 6x6")):
        accuracy = network_accuracy(job(), found)
        assert accuracy.narrower == 0 and accuracy.after == accuracy.before


def test_the_accuracy_is_kept_and_reported(cache: Path) -> None:
    calls: list[bytes] = []
    found = [network_accuracy(job(calls=calls), verdict(INT4, "dense 144>5 1")) for _ in range(2)]
    assert found[0] == found[1] and len(calls) == 1
    next(cache.iterdir()).write_text("{")
    assert network_accuracy(job(calls=calls), verdict(INT4, "dense 144>5 1")) == found[0] and len(calls) == 2
    document = report_of(replace(verdict(INT4), network=found[0]))["accuracy"]
    assert document["after"] == {"error": found[0].after.error, "agreement": found[0].after.agreement}


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(EvaluateError, match=r"^evaluate: samples must be at least 2, got 1$"):
        network_accuracy(job(rows=1), verdict(INT4))
    text = r"^evaluate: activations of a network must be int8, got an extension for int4$"
    with pytest.raises(EvaluateError, match=text):
        network_accuracy(job(), verdict(OperandTypes("int4", "int8")))


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ({"frst": 4}, r"quantise: weight_bits must name layers with weights, got 'frst' \(did you mean first\?\)"),
        ({"first": 9}, r"quantise: weight_bits of first must be an integer from 2 to 8, got 9"),
    ],
)
def test_bits_of_weights_are_checked(bits: dict[str, int], text: str) -> None:
    data = np.zeros((1, 4, 6, 6), np.float32)
    with pytest.raises(vdla.Error, match=f"^{text}$"):
        vdla.quantise(model(), calibration=data, weight_bits=bits)


def test_narrow_weights_are_within_their_bits() -> None:
    data = np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype(np.float32)
    made = vdla.quantise(model(), calibration=data, weight_bits={"first": 4})
    largest = {name: int(np.abs(weight.values).max()) for name, weight in made.parameters.weights.items()}
    assert largest["first"] == 7 and largest["second"] > 100
