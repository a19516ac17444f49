# SPDX-License-Identifier: Apache-2.0
"""Models that say what does not follow: stale types of results, maps, options without elements."""

import numpy as np
import onnxruntime
import pytest
from onnx import TypeProto, ValueInfoProto, helper, numpy_helper

from vdla.cli import main
from vdla.compiler.graph.onnx import UnsupportedError, import_model
from vdla.compiler.graph.onnx.errors import OnnxWarning
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import evaluate

onnxruntime.set_default_logger_severity(4)

FLOAT, INT64 = 1, 7


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def info(name, dtype, *shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, constants=(), opset=15, values=()):
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, kept, value_info=values)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def peer(model, arrays):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, arrays)


# --- stale types ----------------------------------------------------------------------------------


def two_layers(batch, hidden, result):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    return model_of(nodes, [info("x", FLOAT, batch, 4)], [result], {"w": floats(4, 3)}, values=[hidden])


H, Y = info("h", FLOAT, "m", 3), info("y", FLOAT, "m", 3)
STALE = {
    "extent of an inner value": (info("h", FLOAT, 1, 3), Y, "h is float32[{}, 3], not float32[1, 3]"),
    "other extent": (info("h", FLOAT, "n", 5), Y, "h is float32[{}, 3], not float32[n, 5]"),
    "rank of an inner value": (info("h", FLOAT, 1, 3, 1), Y, "h is float32[{}, 3], not float32[1, 3, 1]"),
    "type of an inner value": (info("h", 11, "m", 3), Y, "h is float32[{}, 3], not float64[m, 3]"),
    "extent of a result": (H, info("y", FLOAT, 1, 3), "y is float32[{}, 3], not float32[1, 3]"),
    "rank of a result": (H, info("y", FLOAT), "y is float32[{}, 3], not float32[]"),
    "type of a result": (H, info("y", INT64, "m", 3), "y is float32[{}, 3], not int64[m, 3]"),
}


@pytest.mark.parametrize("batch", ["n", 2])
@pytest.mark.parametrize("name", STALE)
def test_stale_types_are_ignored_with_a_warning(name, batch):
    hidden, result, text = STALE[name]
    model, arrays = two_layers(batch, hidden, result), {"x": floats(2, 4)}
    with pytest.warns(OnnxWarning) as caught:
        compiled = compile_network(model)
    (message,) = [str(each.message) for each in caught]
    rule = "g: declared types must follow from the inputs, got stale ones, which are ignored (1): "
    assert message == rule + text.format(batch)
    want = peer(two_layers(batch, H, Y), arrays)[0]
    np.testing.assert_allclose(compiled.run(arrays).outputs["y"], want, rtol=1e-5)


def test_sound_types_are_silent():
    compile_network(two_layers("n", H, Y))
    compile_network(two_layers(2, info("h", FLOAT, 2, 3), info("y", FLOAT, "batch", 3)))


def test_what_inference_leaves_open_is_as_declared():
    nodes = [helper.make_node("Expand", ["x", "s"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    model = model_of(nodes, [info("x", FLOAT, 1, 3), info("s", INT64, 2)], [info("y", FLOAT, 4, 3)])
    assert str(import_model(model).types["y"]) == "float32[4, 3]"


@pytest.mark.parametrize("stale", [5, 12])
def test_extents_that_depend_on_data_are_not_taken_as_declared(stale):
    nodes = [helper.make_node("NonZero", ["x"], ["h"]), helper.make_node("Cast", ["h"], ["y"], to=FLOAT)]
    model = model_of(nodes, [info("x", FLOAT, 2, 6)], [info("y", FLOAT, 2, stale)], values=[info("h", INT64, 2, 5)])
    arrays = {"x": floats(2, 6)}
    np.testing.assert_array_equal(compile_network(model).run(arrays).outputs["y"], peer(model, arrays)[0])


def test_reshapes_to_computed_shapes_are_not_taken_as_declared():
    nodes = [helper.make_node("Reshape", ["x", "s"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    inputs = [info("x", FLOAT, 2, 6), info("s", INT64, 2)]
    model = model_of(nodes, inputs, [info("y", FLOAT, 6, 2)], values=[info("h", FLOAT, 6, 2)])
    arrays = {"x": floats(2, 6), "s": np.array([3, 4])}
    np.testing.assert_array_equal(compile_network(model).run(arrays).outputs["y"], peer(model, arrays)[0])


@pytest.mark.parametrize(("limit", "declared", "kind"), [("s", 5, "float32[?]"), ("n", 3, "float32[3]")])
def test_ranges_to_values_of_inputs_are_not_taken_as_declared(limit, declared, kind):
    """A range over an extent, however computed, is as declared."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["shapes"], to=FLOAT),
        helper.make_node("ReduceMin", ["shapes"], ["n"], keepdims=0),
        helper.make_node("Range", ["zero", limit, "one"], ["y"]),
    ]
    constants = {"zero": np.float32(0), "one": np.float32(1)}
    inputs = [info("x", FLOAT, 3, 4), info("s", FLOAT)]
    model = model_of(nodes, inputs, [info("y", FLOAT, declared)], constants)
    assert str(import_model(model).types["y"]) == kind
    arrays = {"x": floats(3, 4), "s": np.array(4, np.float32)}
    np.testing.assert_array_equal(compile_network(model).run(arrays).outputs["y"], peer(model, arrays)[0])


@pytest.mark.parametrize("opset", [18, 21, 26])
def test_group_normalisation_has_the_type_of_its_operand(opset):
    """ONNX has no inference for it from opset 21 on; in bodies as outside."""

    def norm(result):
        return helper.make_node("GroupNormalization", ["x", "s", "b"], [result], num_groups=2)

    bodies = [helper.make_graph([norm(name)], "body", [], [ValueInfoProto(name=name)]) for name in "pq"]
    branch = helper.make_node("If", ["c"], ["z"], then_branch=bodies[0], else_branch=bodies[1])
    layer = helper.make_node("LayerNormalization", ["x", "w"], ["l"])
    nodes = [norm("h"), helper.make_node("Relu", ["h"], ["y"]), layer, branch]
    scales = 2 if opset == 18 else 4
    constants = {"s": floats(scales), "b": floats(scales), "w": floats(3)}
    outputs = [info("y", FLOAT, 9, 9, 9), ValueInfoProto(name="z"), ValueInfoProto(name="l")]
    model = model_of(nodes, [info("x", FLOAT, 2, 4, 3), info("c", 9)], outputs, constants, opset)
    with pytest.warns(OnnxWarning, match=r"y is float32\[2, 4, 3\], not float32\[9, 9, 9\]"):
        graph = import_model(model)
    assert [str(graph.types[name]) for name in "yzl"] == ["float32[2, 4, 3]"] * 3
    assert "GroupNormalization" in {node.op for node in graph.nodes}


def test_stale_types_in_bodies():
    bodies = [
        helper.make_graph([helper.make_node(op, ["x"], [name])], "body", [], [info(name, FLOAT, 9, 3)])
        for op, name in (("Relu", "p"), ("Neg", "q"))
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1])
    model = model_of([node], [info("x", FLOAT, 2, 3), info("c", 9)], [info("y", FLOAT, 2, 3)])
    arrays = {"x": floats(2, 3), "c": np.array(True)}
    rule = "declared types in bodies must follow from the inputs, got stale ones, which are ignored"
    with pytest.warns(OnnxWarning, match=f"^g: {rule}$"):
        compiled = compile_network(model)
    np.testing.assert_array_equal(compiled.run(arrays).outputs["y"], peer(model, arrays)[0])


def test_commands_show_warnings_in_one_line(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(two_layers(2, info("h", FLOAT, 1, 3), Y).SerializeToString())
    assert main(["compile", str(path), "--target", "host", "-o", str(tmp_path / "m.vdla")]) == 0
    assert "vdla: warning: g: declared types must follow from the inputs, got stale ones" in capsys.readouterr().err


# --- maps -----------------------------------------------------------------------------------------


def classifier(*, reads_map=False):
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml",
                         coefficients=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], intercepts=[0.0, 0.1, 0.2],
                         classlabels_ints=[0, 1, 2], post_transform="SOFTMAX"),
        helper.make_node("ZipMap", ["p"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]  # fmt: skip
    kind = TypeProto()
    kind.sequence_type.elem_type.map_type.key_type = INT64
    kind.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = FLOAT
    outputs = [info("label", INT64, "n"), ValueInfoProto(name="probabilities", type=kind)]
    if reads_map:
        nodes.append(helper.make_node("SequenceLength", ["probabilities"], ["count"]))
        outputs = [info("label", INT64, "n"), info("count", INT64)]
    return model_of(nodes, [info("x", FLOAT, "n", 2)], outputs)


def test_maps_of_probabilities_are_a_tensor():
    model, arrays = classifier(), {"x": floats(3, 2)}
    made = "it is the tensor with one column a class, as after a conversion with zipmap=False"
    with pytest.warns(
        OnnxWarning, match=f"^g: output probabilities must be a tensor, got the maps of a ZipMap; {made}$"
    ):
        compiled = compile_network(model)
    labels, maps = peer(model, arrays)
    results = compiled.run(arrays).outputs
    np.testing.assert_array_equal(results["label"], labels)
    np.testing.assert_allclose(results["probabilities"], [[row[k] for k in (0, 1, 2)] for row in maps], rtol=1e-5)


def test_maps_that_a_node_reads_are_refused():
    with pytest.raises(UnsupportedError, match=r"ZipMap probabilities: .*zipmap=False"):
        import_model(classifier(reads_map=True))


# --- options without elements ---------------------------------------------------------------------

NONE = np.zeros(0, np.float32)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [11, 12, 13, 18, 19])
@pytest.mark.parametrize("how", ["initializer", "node"])
def test_resize_without_roi_or_scales(opset, mode, how):
    x = {"x": floats(1, 2, 3, 4)}
    nodes, empty = [], {"roi": NONE, "none": NONE}
    if how == "node":
        nodes = [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(NONE)) for name in empty]
        empty = {}
    for inputs, given in (
        (["x", "roi", "s"], {"s": np.array([1, 1, 2, 2], np.float32)}),
        (["x", "roi", "none", "z"], {"z": np.array([1, 2, 6, 7])}),
    ):
        resize = helper.make_node("Resize", inputs, ["y"], mode=mode)
        kept = {name: value for name, value in {**empty, **given}.items() if name in inputs}
        model = model_of([*nodes, resize], [info("x", FLOAT, 1, 2, 3, 4)], [ValueInfoProto(name="y")], kept, opset)
        (value,) = compile_network(model).run(x).outputs.values()
        np.testing.assert_allclose(value, peer(model, x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_input", [False, True])
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"])
def test_reductions_over_no_named_axes(op, noop, is_input):
    arrays, axes = {"x": np.abs(floats(2, 3))}, np.zeros(0, np.int64)
    inputs, constants = [info("x", FLOAT, 2, 3)], {"axes": axes}
    if is_input:
        arrays, inputs, constants = {**arrays, "axes": axes}, [*inputs, info("axes", INT64, 0)], {}
    node = helper.make_node(f"Reduce{op}", ["x", "axes"], ["y"], noop_with_empty_axes=noop)
    model = model_of([node], inputs, [ValueInfoProto(name="y")], constants, opset=18)
    for prefer in ("numpy", "kernel"):
        value = evaluate(import_model(model), arrays, prefer=prefer)["y"]
        np.testing.assert_allclose(value, peer(model, arrays)[0], rtol=1e-5)


def test_extents_that_an_operand_gives_are_not_declared():
    """ONNX infers no extents of MaxUnpool with an output_shape; declared ones may be stale."""
    node = helper.make_node("MaxUnpool", ["x", "i", "shape"], ["y"], kernel_shape=[2], strides=[2])
    constants = {"i": np.array([[[1, 2]]]), "shape": np.array([1, 1, 4])}
    model = model_of([node], [info("x", FLOAT, 1, 1, 2)], [info("y", FLOAT, 1, 1, 5)], constants)
    with compile_network(model) as network:
        result = network.run({"x": np.ones((1, 1, 2), np.float32)}).outputs["y"]
    assert result.tolist() == [[[0, 1, 1, 0]]]
