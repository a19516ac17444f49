"""Calls of NumPy functions: their attributes come from a file, so they may fail in any way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.runtime.artifact import NumpyStep
from vdla.runtime.executor.errors import ExecutorError
from vdla.support.errors import Error

Array = npt.NDArray[Any]
NumpyFunctions = Mapping[str, Callable[..., Sequence[Array]]]


def call_numpy(
    where: str, step: NumpyStep, functions: NumpyFunctions, arrays: Sequence[Array | None]
) -> Sequence[Array]:
    """The results of a step on these arrays; None for an input that is absent.

    Raises:
        ExecutorError: no such function, or attributes or arrays that it cannot take.
    """
    if step.op not in functions:
        raise ExecutorError(f"{where}: operator must be one of {len(functions)} NumPy functions, got {step.op}")
    try:
        results = functions[step.op](step.attributes, *arrays)
    except Error:
        raise
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        raise ExecutorError(f"{where}: {step.op} must be able to run on its inputs, got {got}") from error
    if len(results) < len(step.outputs):
        raise ExecutorError(f"{where}: {step.op} must have {len(step.outputs)} results, got {len(results)}")
    return results


def store_result(where: str, name: str, place: Array, result: Array) -> None:
    """Copies a result to its place; ExecutorError if its extents are others."""
    if np.shape(result) != place.shape:
        raise ExecutorError(f"{where}: {name} must have the extents {list(place.shape)}, got {list(np.shape(result))}")
    place[...] = result
