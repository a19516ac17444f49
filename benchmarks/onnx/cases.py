"""The cases of ONNX's backend test suite that need no download, run by its official runner.

Node tests are single operators, with and without their definition by other operators; the others
are small models that the package `onnx` brings.
"""

from __future__ import annotations

import time
import unittest
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

_CATEGORIES = {
    "OnnxBackendNodeModelTest": "node",
    "OnnxBackendSimpleModelTest": "simple",
    "OnnxBackendPyTorchConvertedModelTest": "pytorch-converted",
    "OnnxBackendPyTorchOperatorModelTest": "pytorch-operator",
}
_DEVICE = "_cpu"


class SuiteVerdict(Enum):
    """What came of a case."""

    PASSED = "passed"
    FAILED = "failed"
    DECLINED = "declined"  # refused at import, with a reason for every node


@dataclass(frozen=True, slots=True)
class SuiteOutcome:
    """A case with its verdict, the text of its error, and its time."""

    category: str
    name: str
    verdict: SuiteVerdict
    text: str
    seconds: float


@cache
def _suites() -> Mapping[str, type[unittest.TestCase]]:
    """The suite's classes of tests by category."""
    from onnx.backend.test import BackendTest

    from vdla.runtime.onnx_backend import OnnxBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes its expected values with overflows
        made = BackendTest(OnnxBackend, __name__).test_cases
    return {category: made[name] for name, category in _CATEGORIES.items()}


@cache
def case_names() -> tuple[tuple[str, str], ...]:
    """Category and name of every case."""
    return tuple(
        (category, name.removesuffix(_DEVICE))
        for category, suite in _suites().items()
        for name in sorted(vars(suite))
        if name.startswith("test_") and name.endswith(_DEVICE)
    )


def run_case(category: str, name: str) -> SuiteOutcome:
    """One case: its model imported, run, and compared within the suite's tolerances."""
    from vdla.compiler.graph.onnx import UnsupportedError

    suite = _suites()[category]
    method = f"{name}{_DEVICE}"
    start = time.perf_counter()
    verdict, text = SuiteVerdict.PASSED, ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(suite(method), method)()
    except UnsupportedError as error:
        verdict, text = SuiteVerdict.DECLINED, str(error)
    except Exception as error:  # whatever a wrong backend raises is the case's failure
        verdict, text = SuiteVerdict.FAILED, f"{type(error).__name__}: {error}"
    return SuiteOutcome(category, name, verdict, text, time.perf_counter() - start)
