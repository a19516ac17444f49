# SPDX-License-Identifier: Apache-2.0
"""Models of older opsets compute what ONNX Runtime, or ONNX's reference, computes with them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

from vdla.compiler.graph.onnx import OnnxError, import_model
from vdla.compiler.graph.onnx.upgrades import UPGRADES
from vdla.runtime.network.evaluator import evaluate

RNG = np.random.default_rng(0)
BOX = np.array([[1, 1, 6, 6]], np.float32)


def image(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def old_model(op, version, arrays, outputs=1, constants=None, **attributes):
    """A model of one node; `constants` are inputs by position that are initialisers."""
    fixed = constants or {}
    names = [f"i{index}" for index in range(len(arrays))]
    given = [(name, array) for index, (name, array) in enumerate(zip(names, arrays, strict=True)) if index not in fixed]
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given]
    results = [f"o{index}" for index in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    initial = [numpy_helper.from_array(arrays[index], names[index]) for index in fixed]
    made = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph([node], op, inputs, made, initial)
    typed = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    return onnx.shape_inference.infer_shapes(typed), dict(given)


def check(model, given, tolerance=1e-5):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, given)
    found = evaluate(import_model(model), given, prefer="size")
    for value, expected in zip(found.values(), wanted, strict=True):
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)


REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("options", [{"axes": [1], "keepdims": 0}, {}])
def test_reductions(name, options):
    check(*old_model(f"Reduce{name}", 11, [np.abs(image(2, 3, 4)) + 0.1], **options))


@pytest.mark.parametrize(
    ("op", "version", "shape", "options"),
    [
        ("Squeeze", 11, (1, 3, 1), {"axes": [0]}),
        ("Squeeze", 11, (1, 3, 1), {}),
        ("Unsqueeze", 11, (2, 3), {"axes": [0, 3]}),
        ("Clip", 7, (4, 5), {"min": -0.25, "max": 0.5}),
        ("Clip", 7, (4, 5), {"max": 0.5}),
        ("Slice", 9, (4, 5), {"starts": [1], "ends": [3], "axes": [1]}),
        ("Slice", 9, (4, 5), {"starts": [1, 0], "ends": [3, -1]}),
        ("Pad", 10, (2, 3), {"pads": [0, 1, 2, 0], "value": 1.5}),
        ("Pad", 10, (2, 3), {"pads": [0, 1, 1, 0], "mode": "reflect"}),
        ("Softmax", 9, (2, 3, 4), {}),
        ("Softmax", 12, (2, 3, 4), {"axis": 2}),
        ("LogSoftmax", 9, (2, 3, 4), {"axis": 1}),
        ("Hardmax", 12, (2, 3, 4), {"axis": 0}),
        ("Upsample", 7, (1, 2, 3, 4), {"scales": [1.0, 1.0, 2.0, 3.0]}),
        ("Upsample", 7, (1, 2, 3, 4), {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "linear"}),
        ("Dropout", 7, (2, 3), {"ratio": 0.3}),
        ("Dropout", 10, (2, 3), {}),
        ("AveragePool", 7, (1, 2, 6, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("MaxPool", 8, (1, 2, 6, 6), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("LpPool", 11, (1, 2, 6, 6), {"kernel_shape": [2, 2]}),
        ("DepthToSpace", 7, (1, 8, 2, 3), {"blocksize": 2}),
        ("Flatten", 7, (2, 3, 4), {"axis": 2}),
        ("Elu", 7, (4, 5), {"alpha": 0.5}),
    ],
)
def test_attributes(op, version, shape, options):
    check(*old_model(op, version, [image(*shape)], **options))


@pytest.mark.parametrize(("version", "options"), [(7, {"split": [1, 2]}), (11, {}), (13, {})])
def test_split(version, options):
    extent = 3 if options else 4
    check(*old_model("Split", version, [image(extent, 2)], 2, **options))


def test_top_k():
    check(*old_model("TopK", 9, [image(3, 7)], 2, k=3, axis=1))


@pytest.mark.parametrize(
    ("op", "version", "arrays", "constants", "options"),
    [
        ("Upsample", 9, [image(1, 2, 3, 4), np.array([1, 1, 2, 3], np.float32)], (1,), {}),
        ("Resize", 10, [image(1, 2, 3, 4), np.array([1, 1, 2, 2], np.float32)], (1,), {"mode": "linear"}),
        (
            "Resize",
            11,
            [image(1, 1, 4, 4), np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
            (1, 2),
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        ),
        ("BatchNormalization", 7, [image(2, 3, 4), *np.abs(image(4, 3)) + 0.5], (1, 2, 3, 4), {}),
        ("BatchNormalization", 9, [image(2, 3, 4), *np.abs(image(4, 3)) + 0.5], (1, 2, 3, 4), {"epsilon": 1e-3}),
        ("Gemm", 7, [image(2, 3), image(3, 4), image(4)], (1, 2), {"alpha": 0.5}),
        ("Gemm", 9, [image(3, 2), image(3, 4), image(2, 1)], (), {"transA": 1}),
        ("Reshape", 7, [image(2, 6), np.array([3, -1], np.int64)], (1,), {}),
        ("Scatter", 9, [image(3, 3), np.array([[1, 0, 2]], np.int64), image(1, 3)], (), {"axis": 0}),
        ("RoiAlign", 10, [image(1, 1, 8, 8), BOX, np.array([0])], (), {"output_height": 2, "output_width": 2}),
        ("GridSample", 16, [image(1, 1, 4, 4), np.clip(image(1, 3, 3, 2), -0.9, 0.9)], (), {"mode": "bicubic"}),
        ("PRelu", 7, [image(2, 3, 4), np.abs(image(3, 1))], (1,), {}),
    ],
)  # fmt: skip
def test_inputs(op, version, arrays, constants, options):
    check(*old_model(op, version, arrays, constants=constants, **options), 1e-4)


def test_group_normalization():
    """Until opset 21, scale and bias were those of a group."""
    x, scale, bias = image(2, 4, 3), np.array([0.5, 2.0], np.float32), np.array([1.0, -1.0], np.float32)
    model, given = old_model("GroupNormalization", 18, [x, scale, bias], num_groups=2)
    grouped = x.reshape(2, 2, 2, 3)
    mean, variance = (f(axis=(2, 3), keepdims=True) for f in (grouped.mean, grouped.var))
    normal = (grouped - mean) / np.sqrt(variance + 1e-5)
    wanted = normal * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(
        evaluate(import_model(model), given, prefer="size")["o0"], wanted.reshape(x.shape), rtol=1e-5, atol=1e-5
    )


def test_dft_axis():
    signal = image(1, 8, 4, 1)
    model, given = old_model("DFT", 17, [signal], axis=2)
    spectrum = np.fft.fft(signal[..., 0], axis=2)
    found = evaluate(import_model(model), given, prefer="size")["o0"]
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], spectrum, rtol=1e-4, atol=1e-4)


def test_operands_of_opset_6_are_aligned_at_an_axis():
    left, right = image(2, 3, 4), image(3)
    model, given = old_model("Add", 6, [left, right], axis=1, broadcast=1)
    np.testing.assert_array_equal(evaluate(import_model(model), given, prefer="size")["o0"], left + right[:, None])


@pytest.mark.parametrize(
    ("op", "version", "shape", "options", "message"),
    [
        ("Dropout", 6, (2, 3), {}, "Dropout o0: the node must not train, got is_test = 0"),
        (
            "BatchNormalization",
            7,
            (2, 3),
            {"spatial": 0},
            "BatchNormalization o0: the node must normalise per channel, got spatial = 0",
        ),
    ],
)
def test_what_has_no_equal_is_refused(op, version, shape, options, message):
    arrays = [image(*shape)] * (5 if op == "BatchNormalization" else 1)
    model, _ = old_model(op, version, arrays, **options)
    with pytest.raises(OnnxError, match=f"^{message}$"):
        import_model(model)


# Operators whose signature changed between the opsets without a change of the older meaning.
COMPATIBLE = {
    "ArgMax": "select_last_index is 0",
    "ArgMin": "select_last_index is 0",
    "Attention": "further inputs are optional, windows are unlimited",
    "AveragePool": "ceil_mode is 0, dilations are 1",
    "Cast": "saturate is 1",
    "CastLike": "saturate is 1",
    "Constant": "is taken by its value",
    "DepthToSpace": "mode is DCR",
    "DequantizeLinear": "axis has no effect on a scale of one element",
    "GRU": "layout is 0",
    "GatherND": "batch_dims is 0",
    "LSTM": "layout is 0",
    "LpPool": "ceil_mode is 0, dilations are 1",
    "MaxPool": "ceil_mode is 0, dilations are 1",
    "OptionalHasElement": "an absent input is newly allowed",
    "Pad": "axes are all of them",
    "QuantizeLinear": "axis has no effect on a scale of one element, block_size is 0",
    "RNN": "layout is 0",
    "Range": "stash_type is that of the older computation",
    "Reshape": "allowzero is 0",
    "Resize": "axes are all of them",
    "ScatterElements": "reduction is none",
    "ScatterND": "reduction is none",
    "Shape": "start is 0",
    "SpaceToDepth": "mode is DCR",
    "Split": "num_outputs is set where it is needed",
    "TopK": "largest and sorted are 1",
    "Gemm": "an absent input is newly allowed",
}


def signature(schema):
    attributes = {
        name: None if attribute.required else attribute.default_value.SerializeToString()
        for name, attribute in schema.attributes.items()
    }
    return [(value.name, value.option) for value in schema.inputs], attributes


def test_every_change_of_a_signature_is_upgraded_or_known_to_be_compatible():
    history = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            history.setdefault(schema.name, {})[schema.since_version] = schema
    open_changes = []
    for op, versions in history.items():
        newest = signature(versions[max(versions)])
        reachable = sorted(versions)[max(sum(since <= 6 for since in versions) - 1, 0) :]
        for since in reachable:
            changed = signature(versions[since]) != newest
            if changed and since not in UPGRADES.get(op, {}) and op not in COMPATIBLE:
                open_changes.append((op, since))
    assert open_changes == []


# Operators that lost element types of an input, and why that needs no upgrade.
NARROWED = {
    "Split": "the sizes of opset 1, which is too old",
    "Tile": "the repeats of opset 1, which is too old",
}


def test_every_element_type_that_an_operator_lost_is_upgraded():
    history = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            history.setdefault(schema.name, {})[schema.since_version] = schema
    lost = []
    for op, versions in history.items():
        newest = versions[max(versions)].inputs
        for since, schema in versions.items():
            pairs = zip(schema.inputs, newest, strict=False)
            narrowed = any(set(old.types) - set(new.types) for old, new in pairs)
            if narrowed and since not in UPGRADES.get(op, {}) and op not in NARROWED:
                lost.append((op, since))
    assert lost == []


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32"])
@pytest.mark.parametrize("version", [10, 11, 13, 18])
@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp"])
def test_integers_of_operators_that_are_now_of_floats(op, version, kind):
    """By axes that are an attribute, and an input."""
    arrays = [np.arange(1, 7, dtype=kind).reshape(2, 3)]
    options = {"keepdims": 0}
    if version < 18:
        options["axes"] = [1]
    else:
        arrays.append(np.array([1], np.int64))
    model, given = old_model(op, version, arrays, constants={1} if version == 18 else None, **options)
    (found,) = evaluate(import_model(model), given).values()
    terms = arrays[0].astype(float)
    wanted = np.log((np.exp(terms) if op == "ReduceLogSumExp" else terms).sum(axis=1))
    assert found.dtype == kind
    np.testing.assert_array_equal(found, wanted.astype(kind))


def test_erf_of_integers():
    model, given = old_model("Erf", 9, [np.arange(-3, 4, dtype=np.int16)])
    (found,) = evaluate(import_model(model), given).values()
    assert found.dtype == np.int16
    assert found.tolist() == [0] * 7


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (2, 3, 0)])
@pytest.mark.parametrize(("op", "version"), [("Softmax", 7), ("LogSoftmax", 11), ("Hardmax", 11)])
def test_softmax_without_elements(op, version, shape, axis):
    model, given = old_model(op, version, [np.zeros(shape, np.float32)], axis=axis)
    (found,) = evaluate(import_model(model), given).values()
    assert found.shape == shape


def test_every_upgrade_begins_at_a_version_of_its_operator():
    for op, upgrades in UPGRADES.items():
        name = op.removeprefix("ai.onnx.ml.")
        known = {schema.since_version for schema in defs.get_all_schemas_with_history() if schema.name == name}
        assert set(upgrades) <= (known or {0}), op  # 0: a domain of which onnx has no schemas


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        (TensorProto.STRING, np.array(["b", "z", "a"], object), [1, 7, 2]),  # of equal words the last
        (TensorProto.INT64, np.array([1, 9, 0]), ["b", "_Unused", "a"]),
    ],
)
def test_the_first_label_encoder_maps_strings_and_their_places(kind, given, wanted):
    options = {"default_int64": 7} if kind == TensorProto.STRING else {}
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", classes_strings=["a", "b", "a"], **options
    )
    result = TensorProto.INT64 if kind == TensorProto.STRING else TensorProto.STRING
    info = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [info("x", kind, [3])], [info("y", result, [3])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    made = import_model(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    assert evaluate(made, {"x": given})["y"].tolist() == wanted
