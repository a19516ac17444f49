# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models, mutated as bytes and field by field, then imported and evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx.helper import (
    make_function,
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_sparse_tensor,
    make_tensor,
    make_tensor_value_info,
)
from onnx.numpy_helper import from_array

from vdla.support.arrays import Array
from vdla.verification.hostile.mutate import mutate_message, mutated_bytes
from vdla.verification.hostile.source import HostileSource

_CASES = 4_000
_MOST_ELEMENTS = 1 << 16  # of an input of a model that is evaluated


def read_model(seed: int) -> str:
    """Imports the model of a seed, and evaluates it on zeros if its inputs are small."""
    from vdla.compiler.graph import TensorType
    from vdla.compiler.graph.onnx import import_model
    from vdla.runtime.network.evaluator import evaluate

    graph = import_model(hostile_model(seed))
    if any(node.op == "Loop" for node in graph.nodes):
        return "imported"  # it may count to any number
    inputs: dict[str, Any] = {}
    for name in graph.inputs:
        kind = graph.types[name]
        if not isinstance(kind, TensorType) or not kind.static or np.prod(kind.extents, dtype=float) > _MOST_ELEMENTS:
            return "imported"
        if kind.dtype not in ("float32", "int64", "bool", "int8", "uint8"):
            return "imported"
        inputs[name] = np.zeros(kind.extents, kind.dtype)
    evaluate(graph, inputs, prefer="numpy")
    return "evaluated"


def hostile_model(seed: int) -> bytes:
    """The bytes of a mutated model."""
    random = Random(seed)
    models = corpus()
    content = random.choice(models)
    if random.random() < 0.4:
        return mutated_bytes(content, random.choice(models), random)
    model = ModelProto.FromString(content)
    mutate_message(model, random)
    return bytes(model.SerializeToString())


@cache
def corpus() -> tuple[bytes, ...]:
    """Well-formed models that use every part of the importer."""
    return tuple(model.SerializeToString() for model in models())


ONNX_MODELS = HostileSource("onnx", read_model, _CASES)


# --- corpus ---------------------------------------------------------------------------------------
# Well-formed small models, one for each part of the importer: of which hostile ones are made.


_FLOAT = TensorProto.FLOAT


def models() -> Iterator[ModelProto]:
    """The corpus."""
    yield _convolutions()
    yield _branches()
    yield _loop()
    yield _quantised()
    yield _functions()
    yield _old()
    yield _sequences()
    yield _constants()


def value_info(name: str, *shape: int | str, dtype: int = _FLOAT) -> ValueInfoProto:
    """A tensor, of float32 unless another type is given."""
    return make_tensor_value_info(name, dtype, shape)


def small_model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str],
    initial: Mapping[str, Any] | None = None,
    opset: int = 21,
    **options: Any,  # noqa: ANN401
) -> ModelProto:
    """A model of some nodes; `initial` are its constants."""
    tensors = [from_array(np.asarray(value), name) for name, value in (initial or {}).items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = make_graph(nodes, "small", inputs, results, tensors)
    imports = [make_opsetid("", opset), *options.pop("domains", ())]
    return make_model(graph, opset_imports=imports, **options)


def weights(*shape: int) -> Array:
    """Constants of a shape, from -1 upwards."""
    return (np.arange(np.prod(shape), dtype=np.float32) / 7 - 1).reshape(shape)


def _convolutions() -> ModelProto:
    nodes = [
        make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        make_node("Relu", ["n"], ["r"], name="act"),
        make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        make_node("Flatten", ["p"], ["f"]),
        make_node("Gemm", ["f", "g"], ["y"], transB=1),
        make_node("Softmax", ["y"], ["z"]),
    ]
    ones = np.ones(4, np.float32)
    initial = {"w": weights(4, 2, 3, 3), "b": ones, "s": ones, "m": ones, "v": ones, "g": weights(3, 36)}
    return small_model(nodes, [value_info("x", "batch", 2, 6, 6)], ["z"], initial)


def _branches() -> ModelProto:
    result = [onnx.ValueInfoProto(name="r")]
    one = make_node("Constant", [], ["one"], value=from_array(np.ones(4, np.float32)))
    then = make_graph([one, make_node("Add", ["x", "one"], ["r"])], "then", [], result)
    other = make_graph([make_node("Mul", ["x", "k"], ["r"])], "else", [], result)
    nodes = [
        make_node("ReduceSum", ["x"], ["t"], keepdims=0),
        make_node("Less", ["t", "zero"], ["c"]),
        make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    return small_model(nodes, [value_info("x", 4)], ["y"], {"k": np.float32(2), "zero": np.float32(0)})


def _loop() -> ModelProto:
    body = make_graph(
        [
            make_node("Add", ["state", "x"], ["next"]),
            make_node("Identity", ["going"], ["still"]),
            make_node("Identity", ["next"], ["row"]),
        ],
        "body",
        [
            value_info("i", dtype=TensorProto.INT64),
            value_info("going", dtype=TensorProto.BOOL),
            value_info("state", 3),
        ],
        [value_info("still", dtype=TensorProto.BOOL), value_info("next", 3), value_info("row", 3)],
    )
    nodes = [
        make_node("Loop", ["count", "", "x"], ["last", "rows"], body=body),
        make_node("Slice", ["rows", "from", "to"], ["y"]),
    ]
    initial = {"count": np.int64(3), "from": np.array([1]), "to": np.array([3])}
    return small_model(nodes, [value_info("x", 3)], ["last", "y"], initial)


def _quantised() -> ModelProto:
    nodes = [
        make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        make_node("Conv", ["d", "wd"], ["y"], strides=[2, 2]),
    ]
    initial = {
        "s": np.float32(0.1), "z": np.int8(3), "ws": np.full(3, 0.05, np.float32), "wz": np.zeros(3, np.int8),
        "w": np.arange(54, dtype=np.int8).reshape(3, 2, 3, 3),
    }  # fmt: skip
    return small_model(nodes, [value_info("x", 1, 2, 5, 5)], ["y"], initial)


def _functions() -> ModelProto:
    imports = [make_opsetid("", 21)]
    body = [make_node("Add", ["a", "a"], ["t"]), make_node("LeakyRelu", ["t"], ["b"])]
    body[1].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    inner = make_function("own", "Inner", ["a"], ["b"], body, imports, ["slope"])
    call = [make_node("Inner", ["a"], ["b"], domain="own", slope=0.25)]
    outer = make_function("own", "Outer", ["a"], ["b"], call, [*imports, make_opsetid("own", 1)])
    nodes = [make_node("Outer", ["x"], ["y"], domain="own"), make_node("Gelu", ["y"], ["z"])]
    domains = [make_opsetid("own", 1)]
    return small_model(nodes, [value_info("x", 2, "n")], ["z"], domains=domains, functions=[inner, outer])


def _old() -> ModelProto:
    nodes = [
        make_node("Slice", ["x"], ["s"], starts=[0], ends=[3], axes=[1]),
        make_node("Unsqueeze", ["s"], ["u"], axes=[0]),
        make_node("Clip", ["u"], ["c"], min=-1.0, max=1.0),
        make_node("Softmax", ["c"], ["y"]),
        make_node("TopK", ["y"], ["v", "i"], k=2),
    ]
    return small_model(nodes, [value_info("x", 2, 4)], ["v", "i"], opset=8, ir_version=4)


def _sequences() -> ModelProto:
    nodes = [
        make_node("SplitToSequence", ["x"], ["s"], axis=0),
        make_node("SequenceAt", ["s", "one"], ["e"]),
        make_node("SequenceInsert", ["s", "e"], ["t"]),
        make_node("ConcatFromSequence", ["t"], ["y"], axis=0),
        make_node("Optional", ["y"], ["o"]),
        make_node("OptionalGetElement", ["o"], ["z"]),
    ]
    return small_model(nodes, [value_info("x", 3, 2)], ["z"], {"one": np.int64(1)})


def _constants() -> ModelProto:
    sparse = make_sparse_tensor(
        make_tensor("v", _FLOAT, [2], [1.0, 2.0]),
        make_tensor("i", TensorProto.INT64, [2], [1, 5]),
        [2, 4],
    )
    nodes = [
        make_node("Constant", [], ["a"], sparse_value=sparse),
        make_node("Constant", [], ["b"], value_floats=[1.0, 2.0, 3.0, 4.0]),
        make_node("Constant", [], ["n"], value_ints=[2, 4]),
        make_node("ConstantOfShape", ["n"], ["f"]),
        make_node("Add", ["a", "b"], ["t"]),
        make_node("Sum", ["t", "f", "x"], ["u"]),
        make_node("Cast", ["u"], ["h"], to=TensorProto.FLOAT16),
        make_node("Reshape", ["h", "m"], ["y"]),
    ]
    return small_model(nodes, [value_info("x", 2, 4)], ["y"], {"m": np.array([4, -1])})
