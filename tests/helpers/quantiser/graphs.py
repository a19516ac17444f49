# SPDX-License-Identifier: Apache-2.0
"""Steps before quantisation: batch normalisation folded, the ranges of all tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model that may be changed."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def constants(model: onnx.ModelProto) -> dict[str, Array]:
    """The initialisers as arrays."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """The value of an attribute, or its default."""
    return next((helper.get_attribute_value(entry) for entry in node.attribute if entry.name == name), default)


def consumers(model: onnx.ModelProto) -> dict[str, list[onnx.NodeProto]]:
    """The nodes that read each tensor."""
    found: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            found.setdefault(name, []).append(node)
    return found


def fold_batch_norm(model: onnx.ModelProto) -> onnx.ModelProto:
    """Batch normalisation after a convolution becomes part of its weights and bias."""
    model = copy_of(model)
    arrays, readers = constants(model), consumers(model)
    producers = {name: node for node in model.graph.node for name in node.output}
    for norm in [node for node in model.graph.node if node.op_type == "BatchNormalization"]:
        conv = producers.get(norm.input[0])
        if conv is None or conv.op_type not in ("Conv", "ConvTranspose") or len(readers[conv.output[0]]) > 1:
            continue
        scale, shift, mean, variance = (arrays[name].astype(np.float64) for name in norm.input[1:])
        factor = scale / np.sqrt(variance + attribute(norm, "epsilon", 1e-5))
        weight = arrays[conv.input[1]].astype(np.float64)
        axis = 0 if conv.op_type == "Conv" else 1
        old = arrays[conv.input[2]].astype(np.float64) if len(conv.input) > 2 else 0.0
        names = [f"{conv.name}.folded.weight", f"{conv.name}.folded.bias"]
        shape = [-1 if at == axis else 1 for at in range(weight.ndim)]
        folded = (weight * factor.reshape(shape), shift + (old - mean) * factor)
        for name, values in zip(names, folded, strict=True):
            model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        inputs = [conv.input[0], *names]
        del conv.input[:]
        conv.input.extend(inputs)
        conv.output[0] = norm.output[0]
        model.graph.node.remove(norm)
    return without_unused_constants(model)


def without_unused_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with the initialisers that a node or an output reads."""
    used = {name for node in model.graph.node for name in node.input} | {info.name for info in model.graph.output}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model


def session(model: onnx.ModelProto, optimised: bool = True) -> onnxruntime.InferenceSession:
    """ONNX Runtime on one thread, with or without its graph optimisations."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def with_outputs(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """A copy with further outputs."""
    copy = copy_of(model)
    known = {info.name for info in copy.graph.output}
    copy.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names if name not in known)
    return copy


def ranges(model: onnx.ModelProto, data: Iterable[Mapping[str, Array]]) -> dict[str, tuple[float, float]]:
    """Smallest and largest value of every float tensor, constants left out."""
    names = [name for node in model.graph.node for name in node.output if name]
    running = session(with_outputs(model, names))
    outputs = [info.name for info in running.get_outputs()]
    found: dict[str, tuple[float, float]] = {}
    for inputs in data:
        arrays = dict(zip(outputs, running.run(None, dict(inputs)), strict=True)) | dict(inputs)
        for name, array in arrays.items():
            if np.asarray(array).dtype == np.float32:
                low, high = found.get(name, (np.inf, -np.inf))
                found[name] = (min(low, float(array.min())), max(high, float(array.max())))
    return found
