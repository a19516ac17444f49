# SPDX-License-Identifier: Apache-2.0
"""What a model must compute, by ONNX Runtime and by ONNX's own reference evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto, checker

from vdla.compiler.target import host
from vdla.verification.grids.draw import Array

_RELATIVE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 2e-4, "float64": 1e-6}

_BYTES = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}


@dataclass(frozen=True)
class ReferenceResults:
    """The results of one reference; `text` says why there are none."""

    name: str
    arrays: tuple[Array, ...] | None
    text: str = ""


def by_onnxruntime(model: ModelProto, inputs: Mapping[str, Array]) -> ReferenceResults:
    """The results of ONNX Runtime, without its optimisations where sums of bytes are exact.

    Processors with AVX2 but no VNNI add products of an unsigned and a signed byte in int16, which
    saturates. An optimisation makes weights unsigned, which a few operators do not take.
    """
    results = _by_onnxruntime(model, inputs, exact=_saturates())
    return _by_onnxruntime(model, inputs, exact=False) if results.arrays is None and _saturates() else results


@cache
def _saturates() -> bool:
    machine = host()
    return machine.has("avx2") and not machine.has("avx512vnni") and not machine.has("avxvnni")


def _by_onnxruntime(model: ModelProto, inputs: Mapping[str, Array], *, exact: bool) -> ReferenceResults:
    import onnxruntime

    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED if exact else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", str(int(exact)))
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return ReferenceResults("onnxruntime", tuple(flat(session.run(None, dict(inputs)))))
    except Exception as error:  # whatever it raises says that it has no results
        return ReferenceResults("onnxruntime", None, " ".join(str(error).split())[:200])


def by_onnx(model: ModelProto, inputs: Mapping[str, Array]) -> ReferenceResults:
    """The results of `onnx.reference`, for models that pass ONNX's checker."""
    from onnx.reference import ReferenceEvaluator

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, dict(inputs))
        return ReferenceResults("onnx.reference", tuple(flat(results)))
    except Exception as error:
        return ReferenceResults("onnx.reference", None, f"{type(error).__name__}: {error}"[:200])


def flat(values: Iterable[Any]) -> list[Array]:
    """Arrays from results: a sequence is its length and its elements, an empty optional two arrays.

    There are as many as the model has results where all of these are tensors.
    """
    made: list[Array] = []
    for value in values:
        if value is None:
            made += [np.zeros(0, bool), np.zeros(0, bool)]
        elif isinstance(value, list | tuple):
            made += [np.asarray(len(value)), *flat(value)]
        elif isinstance(value, np.ndarray | np.generic):
            made.append(np.asarray(value))
        else:
            raise TypeError(f"results must be arrays, got {type(value).__name__}")
    return made


def is_valid(model: ModelProto) -> bool:
    """Whether ONNX's checker accepts a model of ONNX's own operators."""
    try:
        checker.check_model(model, full_check=True)
    except Exception:
        return False
    return True


def difference(results: Sequence[Array], expected: Sequence[Array], beyond: float = 0.0) -> str:
    """How results differ from others, beyond rounding and `beyond`; empty where they agree."""
    if len(results) != len(expected):
        return f"{len(results)} arrays, not {len(expected)}"
    for place, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        if text := _differs(in_bytes(np.asarray(result)), in_bytes(np.asarray(wanted)), beyond):
            return f"result {place}: {text}"
    return ""


def in_bytes(array: Array) -> Array:
    """Integers of less than a byte as those of a byte; other arrays as they are."""
    kind = array.dtype.name
    return array.astype(_BYTES[kind]) if kind in _BYTES else array


def _differs(result: Array, wanted: Array, beyond: float) -> str:
    if result.shape != wanted.shape:
        return f"shape {list(result.shape)}, not {list(wanted.shape)}"
    if (result.dtype.kind in "OUS") != (wanted.dtype.kind in "OUS"):
        return f"type {result.dtype}, not {wanted.dtype}"
    if result.dtype.kind in "OUS":
        return "" if (result.astype(str) == wanted.astype(str)).all() else "other strings"
    if result.dtype != wanted.dtype:
        return f"type {result.dtype}, not {wanted.dtype}"
    if not result.size:
        return ""
    tolerance = _RELATIVE.get(result.dtype.name, 0.0)
    one, two = _wide(result), _wide(wanted)
    with np.errstate(all="ignore"):
        finite = np.isfinite(two)
        if not np.array_equal(one[~finite], two[~finite], equal_nan=one.dtype.kind in "fc"):
            return "other infinities or NaN"
        gap = np.abs(one[finite] - two[finite])
        scale = max(1.0, float(np.abs(two[finite]).max(initial=0)))
        allowed = tolerance * np.abs(two[finite]) + tolerance * scale * 0.1 + beyond
    if not (gap <= allowed).all():
        return (
            f"differs by up to {float(gap.max()):.4g} of {scale:.4g} in {int((~(gap <= allowed)).sum())} of {one.size}"
        )
    return ""


def _wide(array: Array) -> Array:
    if array.dtype.kind == "c":
        return array
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return array.astype(np.longdouble)
    return array.astype(np.float64)
