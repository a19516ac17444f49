# SPDX-License-Identifier: Apache-2.0
"""Small TensorFlow Lite files, mutated as bytes, then imported and evaluated."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np

from vdla.verification.hostile.mutate import mutated_bytes
from vdla.verification.hostile.source import HostileSource

_CASES = 4_000
_NUMBERS = (0, 1, 2, 3, 4, 7, 9, 127, 128, 255, -2, 1 << 16, (1 << 31) - 1, 1 << 31)
_MOST_ELEMENTS = 1 << 16  # of an input, a result or a constant of a model that is evaluated


def read_file(seed: int) -> str:
    """Imports the model of a seed, and evaluates it on zeros if its values are small."""
    from vdla.compiler.graph import TensorType
    from vdla.compiler.graph.tflite import import_tflite
    from vdla.runtime.network.evaluator import evaluate

    graph = import_tflite(hostile_file(seed))
    kinds = [kind for kind in graph.types.values() if isinstance(kind, TensorType)]
    if any(np.prod(kind.extents, dtype=float) > _MOST_ELEMENTS for kind in kinds if kind.static):
        return "imported"
    inputs: dict[str, Any] = {}
    for name in graph.inputs:
        kind = graph.tensor(name)
        if kind.dtype not in ("float32", "int64", "int32", "bool", "int8", "uint8"):
            return "imported"
        inputs[name] = np.zeros(kind.extents, kind.dtype)
    evaluate(graph, inputs, prefer="numpy")
    return "evaluated"


def hostile_file(seed: int) -> bytes:
    """The bytes of a mutated file; in most cases numbers change and all keeps its place."""
    random = Random(seed)
    files = corpus()
    content = random.choice(files)
    if random.random() < 0.3:
        return mutated_bytes(content, random.choice(files), random)
    made = bytearray(content)
    for _ in range(random.randint(1, 2)):
        _change_number(made, random)
    return bytes(made)


def _change_number(content: bytearray, random: Random) -> None:
    """Another number in the place of an aligned one of 1, 2 or 4 bytes."""
    size = random.choice((1, 1, 2, 4))
    start = random.randrange(8, len(content) - size) // size * size
    value = int.from_bytes(content[start : start + size], "little")
    other = random.choice((*_NUMBERS, value + 1, value - 1, value * 2))
    content[start : start + size] = (other % (1 << 8 * size)).to_bytes(size, "little")


@cache
def corpus() -> tuple[bytes, ...]:
    """Well-formed files, one for each operator."""
    from vdla.verification.tflite_models.operator_cases import operator_cases

    return tuple(case.content for case in operator_cases(rounds=1))


TFLITE_FILES = HostileSource("tflite", read_file, _CASES)
