# SPDX-License-Identifier: Apache-2.0
"""The verdict on a case: compiled and run here, against what its references compute."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from vdla.compiler.graph.onnx import import_model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import evaluate
from vdla.support.errors import Error
from vdla.verification.grids.cases import RUNTIME, Form, Grid, GridCase, with_results
from vdla.verification.grids.decisions import decided
from vdla.verification.grids.draw import Array
from vdla.verification.grids.qonnx import DOMAINS, naive_qonnx
from vdla.verification.grids.references import by_onnx, by_onnxruntime, difference, flat, in_bytes, is_valid

TIMEOUT_S = 60


class GridVerdict(Enum):
    """What came of a case."""

    PASSED = "passed"
    WRONG = "wrong"
    CRASHED = "crashed"  # an error that is not one of the toolkit's
    REFUSED = "refused"  # although a reference computes it
    SET_ASIDE = "set_aside"  # the references disagree, or none of them computes it


@dataclass(frozen=True)
class GridOutcome:
    """A case with its verdict and the reason."""

    operator: str
    key: str
    verdict: GridVerdict
    text: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether the toolkit is at fault."""
        return self.verdict in (GridVerdict.WRONG, GridVerdict.CRASHED, GridVerdict.REFUSED)


def judge(case: GridCase, target: str = "host") -> GridOutcome:
    """The verdict on a case on a target."""
    expected = _expected(case)
    if isinstance(expected, str):
        return _outcome(case, GridVerdict.SET_ASIDE, expected)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = _compiled(case, expected[0], target)
    except Error as error:
        return _outcome(case, GridVerdict.REFUSED, str(error))
    except Exception as error:
        return _outcome(case, GridVerdict.CRASHED, f"{type(error).__name__}: {error}")
    texts = [difference(results, item, case.draft.tolerance) for item in expected]
    if "" in texts:
        return _outcome(case, GridVerdict.PASSED, "")
    if reason := decided(case):
        return _outcome(case, GridVerdict.SET_ASIDE, f"{reason}: {texts}")
    if len(texts) > 1:
        return _outcome(case, GridVerdict.WRONG, f"differs from both references, which disagree: {texts}")
    return _outcome(case, GridVerdict.WRONG, texts[0])


def judge_places(grid: Grid, places: Sequence[int]) -> list[GridOutcome]:
    """The verdicts on the cases of these numbers; a case that takes too long kills the process."""
    outcomes = []
    for place in places:
        signal.alarm(TIMEOUT_S)
        outcomes.append(judge(grid.case(place)))
    signal.alarm(0)
    return outcomes


def died(grid: Grid, place: int) -> list[GridOutcome]:
    """The verdict on a case that killed its process."""
    rule = f"the process must survive the case for {TIMEOUT_S} s, got its death"
    return [_outcome(grid.case(place), GridVerdict.CRASHED, rule)]


def _outcome(case: GridCase, verdict: GridVerdict, text: str) -> GridOutcome:
    said = " ".join(text.split())[:400]
    return GridOutcome(case.operator, case.key, verdict, f"{case.text}: {said}" if said else "")


def _compiled(case: GridCase, expected: Sequence[Array], target: str) -> list[Array]:
    model = case.model()
    arrays = {name: in_bytes(x) for name, x in case.arrays().items()}
    if not case.draft.compiled:
        return flat(evaluate(import_model(model), arrays).values())
    if case.form is Form.STALE and not case.draft.trusted:
        model = with_results(model, expected, more=1)
    with compile_network(model, target) as network:
        result = network.run(arrays)
        return flat([result.outputs[value.name] for value in model.graph.output])


def _expected(case: GridCase) -> list[tuple[Array, ...]] | str:
    """The results of the references, once where they agree; a text where there are none."""
    if case.version.domain in DOMAINS:
        given = [x for x in case.draft.inputs if x is not None]
        return [(naive_qonnx(case.version.name, given, case.draft.attributes),)]
    usual = all(x is None or x.dtype.kind in "fiubO" for x in case.draft.inputs)
    form = Form.CONSTANTS if usual else Form.FOLDED  # ONNX Runtime reads other types from models only
    model, inputs = case.model(form), case.arrays(form)
    first = by_onnxruntime(model, inputs)
    if case.version.domain == RUNTIME:
        return [first.arrays] if first.arrays is not None else f"no reference: {first.text}"
    second = by_onnx(model, inputs)
    known = [item.arrays for item in (first, second) if item.arrays is not None]
    if not known:
        return f"no reference: {first.text}; {second.text}"
    if first.arrays is None and case.draft.compiled and not is_valid(with_results(model, known[0])):
        return f"ONNX's checker refuses the model; {first.text}"
    if len(known) == 2 and not difference(known[0], known[1]):
        return known[:1]
    return known
