# SPDX-License-Identifier: Apache-2.0
"""The certificate of a pass of the network compiler: the graph after it against the one before.

Both are evaluated on the same unknown inputs. Numbers that a pass computes of constants are those
of the graph before if they are as close as rounding makes them; the certificate says how close.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from vdla.compiler.certificates.float_graph_run import GraphRun, graph_inputs
from vdla.compiler.certificates.rounded_sums import RoundingDifference
from vdla.compiler.certificates.scaled_weights import FoldedWeights
from vdla.compiler.certificates.symbols import CertificateError, elements_of
from vdla.compiler.graph import Graph
from vdla.compiler.target import Target, host
from vdla.support.errors import Error


class PassVerdict(Enum):
    """What is known of a pass."""

    SAME = "changes nothing"
    CERTIFIED = "certified"
    DIFFERS = "not equal by any lemma"
    UNKNOWN = "not certified"


@dataclass(frozen=True, slots=True)
class PassCertificate:
    """The verdict on one pass; `opaque` are operators that were functions without structure.

    `close` is the largest relative difference between a number that the pass computed and what it
    stands for; `rounding` counts the sums that integer operators round otherwise than the operators
    of floats that they replace, if the pass made such; `reason` says what differs, or what cannot
    be evaluated.
    """

    name: str
    verdict: PassVerdict
    results: int = 0
    opaque: tuple[str, ...] = ()
    close: float = 0.0
    reason: str = ""
    rounding: RoundingDifference = field(default_factory=RoundingDifference)

    @property
    def holds(self) -> bool:
        """Whether the graph after the pass computes what the one before does, for all inputs."""
        return self.verdict in (PassVerdict.SAME, PassVerdict.CERTIFIED)

    def __str__(self) -> str:
        shown = f"pass {self.name}: {self.verdict.value}"
        if self.verdict is PassVerdict.CERTIFIED:
            numbers = f", numbers within {self.close:.0e}" if self.close else ""
            rounded = f"; {self.rounding}" if self.rounding.count else ""
            return f"{shown}, {self.results:,} results{numbers}{rounded}"
        return f"{shown}; {self.reason}" if self.reason else shown

    __repr__ = __str__


def run_before(
    before: Graph, seed: int = 0, target: Target | None = None, *, fixed: bool = False, short: bool = False
) -> GraphRun:
    """The graph before a pass on unknown inputs.

    With `fixed`, expressions may transform weights, as for an algorithm of Winograd; with `short`,
    products read values without structure, as deep graphs need.

    Raises:
        CertificateError: a value without a static type of elements that have symbols.
    """
    return GraphRun(before, host() if target is None else target, fixed=fixed, short=short).run(
        graph_inputs(before, seed)
    )


def certify_pass(
    name: str,
    before: Graph,
    after: Graph,
    seed: int = 0,
    target: Target | None = None,
    first: GraphRun | None = None,
) -> PassCertificate:
    """Whether a pass kept what a graph of static shapes computes; `target` is the CPU for which
    values lie in blocks, by default this one. `first` is the graph before, if it was run already.
    """
    if before is after:
        return PassCertificate(name, PassVerdict.SAME)
    if len(before.inputs) != len(after.inputs) or len(before.outputs) != len(after.outputs):
        return PassCertificate(name, PassVerdict.UNKNOWN, reason="inputs and outputs must be the same, got others")
    try:
        first = run_before(before, seed, target) if first is None else first
        made = _compared(name, first, _run_after(first, before, after))
        for fixed, short in ((False, True), (True, False)):
            if made.verdict is not PassVerdict.DIFFERS or (fixed and not made.opaque):
                break
            other = run_before(before, seed, target, fixed=fixed, short=short)
            second = _compared(name, other, _run_after(other, before, after))
            made = second if second.holds else made
    except Error as error:
        return PassCertificate(name, PassVerdict.UNKNOWN, reason=str(error))
    return made


def _run_after(first: GraphRun, before: Graph, after: Graph) -> GraphRun:
    folded = FoldedWeights(first, after)
    given = {name: first.values[old] for name, old in zip(after.inputs, before.inputs, strict=True)}
    second = GraphRun(
        after, first.target, first.arrays, fixed=first.fixed, short=first.short, before=before, first=first
    ).run(given, folded.symbols)
    second.close = max(second.close, folded.close)
    return second


def _compared(name: str, first: GraphRun, second: GraphRun) -> PassCertificate:
    opaque = tuple(sorted(first.opaque | second.opaque))
    close, results = second.close, 0
    for one, other in zip(first.graph.outputs, second.graph.outputs, strict=True):
        a, b = (elements_of(run.values[name])["value"] for run, name in ((first, one), (second, other)))
        differs = np.ones(a.shape, np.bool_) if a.shape != b.shape else np.asarray(a != b)
        if differs.any():
            place = ", ".join(str(int(i)) for i in np.argwhere(differs)[0])
            reason = f"the first result is {other}[{place}]; {_operators(first.graph, second.graph)}"
            return PassCertificate(name, PassVerdict.DIFFERS, results=a.size, opaque=opaque, close=close, reason=reason)
        results += a.size
    return PassCertificate(
        name, PassVerdict.CERTIFIED, results=results, opaque=opaque, close=close, rounding=second.rounding
    )


def _operators(before: Graph, after: Graph) -> str:
    """The operators of which a pass changes the number."""
    counts = [Counter(node.op for node in graph.nodes) for graph in (before, after)]
    gone, new = (counts[0] - counts[1], counts[1] - counts[0])
    shown = [", ".join(f"{number} {op}" for op, number in sorted(one.items())) or "none" for one in (gone, new)]
    return f"{shown[0]} became {shown[1]}"


@dataclass
class PassCertifier:
    """Certifies passes as `run_passes` observes them; those in `certificates`, in order."""

    seed: int = 0
    target: Target | None = None
    certificates: list[PassCertificate] = field(default_factory=list)

    def __call__(self, name: str, before: Graph, after: Graph) -> None:
        """Certify one pass."""
        self.certificates.append(certify_pass(name, before, after, self.seed, self.target))

    def raise_if_bad(self) -> None:
        """CertificateError with all verdicts unless every pass is certified."""
        if not all(one.holds for one in self.certificates):
            raise CertificateError("\n".join(map(str, self.certificates)))
