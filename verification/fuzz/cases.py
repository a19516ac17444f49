# SPDX-License-Identifier: Apache-2.0
"""One case of the fuzzer: a random function under a random schedule, three ways of running it,
compared.

The interpreter on the unscheduled function is right by definition; the interpreter on the scheduled
function says whether a rewrite kept the meaning on data, a certificate whether for all inputs, and
native code whether it was lowered and compiled right: for this CPU, or for one of fewer features.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler import ir
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import Array
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.schedule.trace import ScheduleTrace
from vdla.compiler.target import TARGETS, Target, host
from vdla.compiler.tensorize import TensorizeError
from vdla.verification.fuzz.functions import INTRINSICS, FuzzProblem, random_problem
from vdla.verification.fuzz.proofs import Proof, more_inputs, proof_of
from vdla.verification.fuzz.schedules import RewriteFault, Rewrites

_TOLERANCE = 1e-3  # relative to the largest element, for a few operations on rounded values
_NO_FAULT = ""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """The result of a case; `fault` is empty, or `kind: description`."""

    seed: int
    fault: str
    trace: ScheduleTrace
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    proof: Proof | None = None

    @property
    def kind(self) -> str:
        """The kind of fault: rewriting, replay, interpreter, certificate, native or crash."""
        return self.fault.split(":")[0]

    @property
    def script(self) -> str:
        """A Python script that reproduces the fault."""
        given = ", INTRINSICS" if self.trace.intrinsics else ""
        return _SCRIPT.format(schedule=self.trace.python(), seed=self.seed, given=given, fault=self.fault)


_SCRIPT = """\
from vdla.verification.fuzz.cases import fault_of
from vdla.verification.fuzz.functions import INTRINSICS, random_problem
{schedule}

problem = random_problem({seed})
scheduled = schedule(problem.fn{given})
print(problem.fn, scheduled.fn, sep="\\n\\n")
print(fault_of(problem, scheduled))
# {fault}
"""


def run_case(seed: int, native: bool = True) -> CaseOutcome:
    """The outcome of a seed."""
    problem = random_problem(seed)
    rewrites, proof = Rewrites(random.Random(seed), Schedule(problem.fn)), None
    try:
        rewrites.run()
        proof = proof_of(problem, rewrites.schedule.fn)
        fault = fault_of(problem, rewrites.schedule, native, proof)
    except RewriteFault as error:
        fault = f"rewriting: {error}"
    return CaseOutcome(seed, fault, rewrites.schedule.trace, rewrites.accepted, rewrites.refused, proof)


def fault_of(problem: FuzzProblem, schedule: Schedule, native: bool = True, proof: Proof | None = None) -> str:
    """The fault of a scheduled problem; empty if it has none.

    `proof` is what its certificate says; if it does not hold, more data is run.
    """
    if proof is None:
        proof = proof_of(problem, schedule.fn)
    if str(Schedule.replay(problem.fn, schedule.python(), INTRINSICS).fn) != str(schedule.fn):
        return "replay: the printed schedule must give the same function, got another one"
    expected = interpret(problem.fn, problem.arrays)
    try:
        got = interpret(schedule.fn, problem.arrays)
    except Exception as error:
        return f"interpreter: {type(error).__name__}: {error}"
    if different := difference(expected, got, problem.rough):
        return f"interpreter: {different}"
    if proof is Proof.UNPROVEN and (hidden := hidden_fault(problem, schedule.fn)):
        return hidden
    return _native_fault(problem, schedule.fn, got) if native else _NO_FAULT


def hidden_fault(problem: FuzzProblem, scheduled: ir.Function) -> str:
    """A fault that the data of a problem hides, shown by other data; empty if that hides it too."""
    for arrays in more_inputs(problem):
        try:
            got = interpret(scheduled, arrays)
        except Exception as error:
            return f"certificate: {type(error).__name__}: {error}"
        if different := difference(interpret(problem.fn, arrays), got, problem.rough):
            return f"certificate: {different}"
    return _NO_FAULT


def _native_fault(problem: FuzzProblem, scheduled: ir.Function, expected: Mapping[str, Array]) -> str:
    """The difference between native code and the interpreter; empty if they agree."""
    from vdla.runtime.native import build

    try:
        kernel = build(scheduled, target=target_of(problem.seed), contract=False, cached=False)
        inputs = [problem.arrays[name] for name in scheduled.params if name in problem.arrays]
        outputs = kernel(*inputs)
    except Exception as error:
        return f"native: {type(error).__name__}: {error}"
    arrays = outputs if isinstance(outputs, tuple) else (outputs,)
    names = [argument.name for argument in kernel.signature.outputs]
    different = difference(expected, dict(zip(names, arrays, strict=True)), problem.rough)
    return f"native: {different}" if different else _NO_FAULT


def target_of(seed: int) -> Target:
    """The target of a case: the host or, for odd seeds, a target whose features the host has."""
    machine = host()
    known = [t for t in TARGETS.values() if t.architecture == machine.architecture and machine.has(*t.features)]
    return known[seed // 2 % len(known)] if known and seed % 2 else machine


def difference(expected: Mapping[str, Array], got: Mapping[str, Array], rough: bool) -> str:
    """The first output that differs; empty if none does."""
    for name, array in expected.items():
        if not _alike(array, got[name], rough):
            return f"{name} must be {array.tolist()}, got {got[name].tolist()}"
    return _NO_FAULT


def _alike(expected: Array, got: Array, rough: bool) -> bool:
    """Whether two results are equal, NaN included; with `rough`, floats up to a tolerance relative
    to the largest."""
    if expected.dtype != got.dtype or expected.shape != got.shape:
        return False
    if expected.dtype.kind in "biu":
        return bool((expected == got).all())
    a, b = expected.astype(np.float64), got.astype(np.float64)
    if not rough:
        return bool(np.array_equal(a, b, equal_nan=True))
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True))


# --- shrinking ------------------------------------------------------------------------------------


def shrink(outcome: CaseOutcome) -> CaseOutcome:
    """The outcome of the shortest trace found with the same kind of fault."""
    if outcome.kind not in ("interpreter", "certificate", "native", "replay"):
        return outcome
    problem, best = random_problem(outcome.seed), outcome
    at = len(best.trace)
    while at > 0:
        at -= 1
        steps = best.trace.steps
        candidate = ScheduleTrace((*steps[:at], *steps[at + 1 :]))
        fault = _fault_under(problem, candidate)
        if fault.split(":")[0] == outcome.kind:
            best = CaseOutcome(outcome.seed, fault, candidate)
            at = min(at, len(candidate))
    return best


def _fault_under(problem: FuzzProblem, trace: ScheduleTrace) -> str:
    """The fault of a problem under a trace; empty if the trace is illegal."""
    try:
        return fault_of(problem, Schedule.replay(problem.fn, trace))
    except (ScheduleError, TensorizeError):
        return _NO_FAULT
