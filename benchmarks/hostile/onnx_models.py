"""Small ONNX models, mutated as bytes and field by field, then imported and evaluated."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np

from vdla.benchmarks.hostile.mutate import mutated_bytes
from vdla.benchmarks.hostile.mutate_message import mutate_message
from vdla.benchmarks.hostile.source import HostileSource

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
    from onnx import ModelProto

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
    from vdla.benchmarks.hostile.onnx_corpus import models

    return tuple(model.SerializeToString() for model in models())


ONNX_MODELS = HostileSource("onnx", read_model, _CASES)
