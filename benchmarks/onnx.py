# SPDX-License-Identifier: Apache-2.0
"""ONNX's backend test suite: node tests passed, failed, and declined with a reason.

The figures count the node tests of the installed `onnx`; the models that it brings are counted
apart. `declined` are models that the importer refuses, with the reason for each of their nodes;
`incomparable` are cases whose expectation is random, or beyond the suite's own comparison.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
import unittest
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from vdla.benchmarks.harness import BenchmarkResult, Figures, host_receipt
from vdla.support.cache import build_once, user_cache
from vdla.support.progress import Progress, silent

_WORKERS = 2
_BATCH = 64

_Case = tuple[str, str]


def run(
    progress: Progress = silent, seed: int = 0, cases: Sequence[_Case] | None = None, workers: int = _WORKERS
) -> BenchmarkResult:
    """Runs all cases in `workers` processes; 0 runs them in this one. The seed decides nothing."""
    chosen = case_names() if cases is None else tuple(cases)
    outcomes: list[SuiteOutcome] = []
    progress("start", 0, len(chosen))
    for batch in _batches(chosen, workers):
        outcomes += batch
        progress(f"{_count(outcomes, SuiteVerdict.FAILED)} failed", len(outcomes), len(chosen))
    nodes = [outcome for outcome in outcomes if outcome.category == "node"]
    models = [outcome for outcome in outcomes if outcome.category != "node"]
    figures: Figures = {verdict.value: _count(nodes, verdict) for verdict in SuiteVerdict}
    figures |= {"cases": len(nodes), "passed_share": _count(nodes, SuiteVerdict.PASSED) / max(len(nodes), 1)}
    figures |= {f"models_{verdict.value}": _count(models, verdict) for verdict in SuiteVerdict}
    rows = [
        {"case": outcome.name, "verdict": outcome.verdict.value, "reason": outcome.text}
        for outcome in outcomes
        if outcome.verdict is not SuiteVerdict.PASSED
    ]
    return BenchmarkResult("onnx", figures, rows, host_receipt(seed, "vdla bench onnx --json -", ["onnx"]))


def _count(outcomes: Iterable[SuiteOutcome], verdict: SuiteVerdict) -> int:
    return Counter(outcome.verdict for outcome in outcomes)[verdict]


def _batches(cases: Sequence[_Case], workers: int) -> Iterable[list[SuiteOutcome]]:
    batches = [cases[start : start + _BATCH] for start in range(0, len(cases), _BATCH)]
    if not workers:
        yield from map(_run_batch, batches)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_run_batch, batches)


def _run_batch(cases: Sequence[_Case]) -> list[SuiteOutcome]:
    return [run_case(*case) for case in cases]


# --- cases ----------------------------------------------------------------------------------------
# The cases of ONNX's backend test suite that need no download, run by its official runner.
#
# Node tests are single operators, run by kernels where they have them, and their definitions by
# other operators, whose many small nodes run as NumPy functions. The others are small models that
# the package `onnx` brings.


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
    """Category and name of every case; they are kept, since the suite computes its expected values
    when it is loaded, which takes many seconds.
    """
    from onnx import __version__

    digest = hashlib.sha256(repr((__version__, _CATEGORIES, _DEVICE)).encode()).hexdigest()[:16]
    path = build_once(user_cache("onnx") / f"cases-{digest}.json", _write_case_names)
    return tuple((category, name) for category, name in json.loads(path.read_text(encoding="utf-8")))


def _write_case_names(folder: Path) -> Path:
    names = [
        (category, name.removesuffix(_DEVICE))
        for category, suite in _suites().items()
        for name in sorted(vars(suite))
        if name.startswith("test_") and name.endswith(_DEVICE)
    ]
    path = folder / "cases.json"
    path.write_text(json.dumps(names), encoding="utf-8")
    return path


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
