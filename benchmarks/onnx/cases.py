"""The cases of ONNX's backend test suite that need no download, run by its official runner.

Node tests are single operators, run by kernels where they have them, and their definitions by other
operators, whose many small nodes run as NumPy functions. The others are small models that the
package `onnx` brings.
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


# Cases whose expectation no backend can meet: the comparison's error begins like this, and why.
_INCOMPARABLE = {
    **{
        f"test_bernoulli{kind}{form}": (
            "AssertionError: \nNot equal to tolerance",
            "the expected values are random draws",
        )
        for kind in ("", "_double", "_seed")
        for form in ("", "_expanded")
    },
    "test_loop16_seq_none": (
        "TypeError: Unable to compare expected type <class 'numpy.ndarray'>",
        "the runner cannot compare the scalar in the expected sequence",
    ),
}


class SuiteVerdict(Enum):
    """What came of a case."""

    PASSED = "passed"
    FAILED = "failed"
    DECLINED = "declined"  # refused at import, with a reason for every node
    INCOMPARABLE = "incomparable"  # ran, with results of the right types, but nothing can be compared


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
    from onnx.backend.test.loader import load_model_tests

    from vdla.runtime.network.onnx_backend import OnnxBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes its expected values with overflows
        names = [case.name for case in load_model_tests(kind="node") if "_expanded" not in case.name]
        made = BackendTest(OnnxBackend, __name__, {name: {"prefer": "kernel"} for name in names}).test_cases
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
        verdict, text = _failure(name, f"{type(error).__name__}: {error}")
    return SuiteOutcome(category, name, verdict, text, time.perf_counter() - start)


def _failure(name: str, text: str) -> tuple[SuiteVerdict, str]:
    """The verdict of a case that raised an error."""
    begin, reason = _INCOMPARABLE.get(name, ("", ""))
    if begin and text.startswith(begin):
        return SuiteVerdict.INCOMPARABLE, reason
    return SuiteVerdict.FAILED, text
