# SPDX-License-Identifier: Apache-2.0
"""What the importer makes of a file, and what it says of files that it refuses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.compiler.graph.onnx import UnsupportedError
from vdla.compiler.graph.tflite import TfliteError, import_tflite
from vdla.runtime.network.evaluator import evaluate
from vdla.verification.tflite_models.writer import TfliteWriter

needs_package = pytest.mark.skipif(find_spec("tflite") is None, reason="needs the package tflite")


def one(operator: str, *shapes: tuple[int, ...], result: tuple[int, ...] = (1, 4), **options: object) -> bytes:
    """A file of one operator on inputs of float32."""
    writer = TfliteWriter()
    inputs = [writer.tensor(shape, "float32", name=f"x{n}") for n, shape in enumerate(shapes)]
    y = writer.tensor(result, "float32", name="y")
    writer.operator(operator, inputs, (y,), **options)
    return writer.bytes(inputs, (y,))


def message(content: bytes | str | Path) -> str:
    with pytest.raises(vdla.Error) as caught:
        import_tflite(content)
    return str(caught.value)


# --- without the package --------------------------------------------------------------------------


def test_a_model_without_the_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[import_tflite.__module__]  # the package has a function of that name
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    wanted = "model: the package tflite must be installed, got none; do: pip install 'vdla[tflite]'"
    assert message(b"\x14\0\0\0TFL3" + bytes(32)) == wanted


@pytest.mark.parametrize(("content", "got"), [(b"hello\n", "6 bytes of another format"), (b"", "an empty file")])
def test_other_files_are_named(content: bytes, got: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(content)
    with pytest.raises(TfliteError, match=f"m.tflite: the file must be a TensorFlow Lite model, got {got}"):
        vdla.compile(path, "host")


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    assert message(tmp_path / "m.tflite") == f"{tmp_path / 'm.tflite'}: no such file"


# --- files ----------------------------------------------------------------------------------------


@needs_package
def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(one("RELU", (1, 4)))
    for source in (path, str(path), path.read_bytes()):
        with vdla.compile(source, "host") as model:
            x = np.array([[-1, 2, -3, 4]], np.float32)
            assert model(x).tolist() == [[0, 2, 0, 4]]


@needs_package
def test_all_operators_that_cannot_run_are_listed() -> None:
    writer = TfliteWriter()
    x = writer.tensor((1, 4), "float32", name="x")
    a, b, c = (writer.tensor((1, 4), "float32", name=name) for name in "abc")
    writer.operator("CUMSUM", (x,), (a,))
    writer.operator("RELU", (a,), (b,))
    writer.operator("WHILE", (b,), (c,))
    with pytest.raises(UnsupportedError) as caught:
        import_tflite(writer.bytes((x,), (c,)))
    lines = str(caught.value).splitlines()
    assert lines == [
        "model: every node must be supported; 2 nodes are not:",
        "  CUMSUM a: the importer has no such operator; export the network to ONNX, or without the operator",
        "  WHILE c: subgraphs and variables are not imported; export the model without them",
    ]


@needs_package
@pytest.mark.parametrize(
    ("operator", "text"),
    [
        (
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            "recurrent layers are not imported; unroll them before the conversion, or export the network to ONNX",
        ),
        ("SVDF", "recurrent layers are not imported; unroll them before the conversion, or export the network to ONNX"),
        (
            "NON_MAX_SUPPRESSION_V5",
            "boxes are selected outside of a network here; convert the model without its postprocessing",
        ),
        ("STABLEHLO_ADD", "StableHLO is not imported; convert the model with tf.lite.OpsSet.TFLITE_BUILTINS_INT8"),
    ],
)
def test_an_operator_without_a_converter_has_a_remedy(operator: str, text: str) -> None:
    assert message(one(operator, (1, 4))).splitlines()[1] == f"  {operator} y: {text}"


@needs_package
def test_operators_that_break_a_rule_are_listed_together() -> None:
    writer = TfliteWriter()
    x = writer.tensor((1, 4, 4, 2), "float32", name="x")
    a = writer.tensor((1, 2, 2, 2), "float32", name="a")
    b = writer.tensor((1, 4), "int16", name="b")
    writer.operator("MAX_POOL_2D", (x,), (a,), StrideH=0, StrideW=2, FilterHeight=2, FilterWidth=2)
    writer.operator("QUANTIZE", (x,), (b,))
    lines = message(writer.bytes((x,), (a, b))).splitlines()
    assert lines[1:] == [
        "  MAX_POOL_2D a: the operator must have strides of at least 1, got [0, 2]",
        "  QUANTIZE b: the operator must have one scale above 0, got none for b",
    ]


@needs_package
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            lambda: one("RELU", (1, 4), result=(1, 5)),
            "model: y must be float32[1, 4], as its operator computes it, got float32[1, 5]",
        ),
        (
            lambda: one("CONV_2D", (1, 4, 4, 2), (3, 3, 2), StrideH=1, StrideW=1),
            "the operator must have a weight of four dimensions, got [3, 3, 2]",
        ),
        (
            lambda: one("ADD", (1, 4), (1, 3)),
            "the operator must have inputs whose shapes broadcast, got [1, 4] and [1, 3]",
        ),
        (lambda: one("SOFTMAX", (1, 4), Beta=-1.0), "the operator must have a beta above 0, got -1.0"),
        (lambda: one("RESHAPE", (1, 6)), "the operator must keep the number of elements, got [1, 6] to [1, 4]"),
    ],
)
def test_contradictions_are_named(content: Callable[[], bytes], text: str) -> None:
    assert text in message(content())


@needs_package
def test_a_damaged_file_is_one_sentence() -> None:
    content = one("RELU", (1, 4))
    assert message(content[: len(content) // 2]).startswith("model: the flatbuffer must be whole, got a damaged one")


@needs_package
def test_extents_are_refused_where_there_are_no_symbols() -> None:
    with pytest.raises(vdla.Error, match=r"extents must name symbols of the inputs \(none\), got batch"):
        vdla.compile(one("RELU", (1, 4)), "host", extents={"batch": 2})


# --- graphs ---------------------------------------------------------------------------------------


@needs_package
def test_a_chain_on_images_is_transposed_at_its_edges_only() -> None:
    writer = TfliteWriter()
    values = [writer.tensor((1, 4, 4, 3), "float32", name=f"v{n}") for n in range(4)]
    weight = writer.constant(np.ones((3, 1, 1, 3), np.float32))
    bias = writer.constant(np.zeros(3, np.float32))
    strides = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    writer.operator("CONV_2D", (values[0], weight, bias), (values[1],), **strides)
    writer.operator("ADD", (values[1], values[1]), (values[2],))
    writer.operator("CONV_2D", (values[2], weight, bias), (values[3],), **strides)
    graph = import_tflite(writer.bytes((values[0],), (values[3],)))
    assert [node.op for node in graph.nodes] == ["Transpose", "Conv", "Add", "Conv", "Transpose"]
    assert (graph.inputs, graph.outputs) == (("v0",), ("v3",))
    found = evaluate(graph, {"v0": np.ones((1, 4, 4, 3), np.float32)})["v3"]
    assert np.array_equal(found, np.full((1, 4, 4, 3), 18, np.float32))


@needs_package
def test_weights_of_a_dynamic_range_are_dequantised() -> None:
    writer = TfliteWriter()
    x, y = (writer.tensor(shape, "float32", name=name) for shape, name in (((1, 2), "x"), ((1, 2), "y")))
    weight = writer.constant(np.array([[1, 2], [3, 4]], np.int8), scale=0.5)
    writer.operator("FULLY_CONNECTED", (x, weight, -1), (y,))
    found = evaluate(import_tflite(writer.bytes((x,), (y,))), {"x": np.array([[2, 4]], np.float32)})["y"]
    assert found.tolist() == [[5, 11]]


@needs_package
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_floats_are_quantised_half_away_from_zero(dtype: str) -> None:
    writer = TfliteWriter()
    x = writer.tensor((4,), "float32", name="x")
    y = writer.tensor((4,), dtype, scale=1.0, zero_point=10, name="y")
    writer.operator("QUANTIZE", (x,), (y,))
    content, data = writer.bytes((x,), (y,)), {"x": np.array([0.5, -0.5, 2.5, 300], np.float32)}
    wanted = [11, 9, 13, 127 if dtype == "int8" else 255]
    assert evaluate(import_tflite(content), data, prefer="numpy")["y"].tolist() == wanted
    with vdla.compile(content, "host") as model:
        assert model.run(data).outputs["y"].tolist() == wanted


@needs_package
def test_names_that_repeat_are_told_apart() -> None:
    writer = TfliteWriter()
    x, y = writer.tensor((1, 4), "float32", name="x"), writer.tensor((1, 4), "float32", name="x")
    writer.operator("RELU", (x,), (y,))
    graph = import_tflite(writer.bytes((x,), (y,)))
    assert (graph.inputs, graph.outputs) == (("x",), ("x_1",))
