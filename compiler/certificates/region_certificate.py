# SPDX-License-Identifier: Apache-2.0
"""The certificate of a region: its program against the integer operators of its nodes.

Weights, biases and scales are numbers on both sides, plain on one and packed on the other, so that
what the compiler folds into them is compared too. Activations are unknown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from vdla.compiler.certificates.elementwise import numbers, unknowns
from vdla.compiler.certificates.functions_in_use import using
from vdla.compiler.certificates.graph_run import run_graph
from vdla.compiler.certificates.known_bounds import using_bounds
from vdla.compiler.certificates.program_run import SymbolicRun
from vdla.compiler.certificates.region_difference import difference
from vdla.compiler.certificates.region_program import RegionProgram
from vdla.compiler.certificates.small_functions import SmallFunctions
from vdla.compiler.certificates.symbols import CertificateError, Symbols, known
from vdla.compiler.certificates.work_limit import iterations_of
from vdla.compiler.graph import Graph
from vdla.compiler.graph.accelerator import RegionExpression
from vdla.compiler.ir import limits
from vdla.hardware.isa import COL, EXTENSION, Opcode, StagedEmit
from vdla.hardware.program import Program

Array = np.ndarray[Any, np.dtype[Any]]
_Pairs = Mapping[str, tuple[Symbols, Symbols]]  # by result: of the program, and of the operators
MOST_BY_TABLES = 1 << 18
"""Iterations and moved entries of a program whose results are compared by tables."""
_MOST_SHOWN = 1 << 10  # of results that differ, elements that are looked at


class RegionVerdict(Enum):
    """What is known about the program of a region."""

    CERTIFIED = "certified"
    DIFFERS = "differs"
    UNKNOWN = "not certified"


@dataclass(frozen=True, slots=True)
class RegionCertificate:
    """The verdict on a region of `nodes` operators, whose program hands on `results` elements.

    `program` and `expression` are hashes; `reason` says what differs, or why nothing is known.
    """

    region: str
    verdict: RegionVerdict
    program: str
    expression: str
    nodes: int
    results: int
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether the program computes the operators, for all inputs."""
        return self.verdict is RegionVerdict.CERTIFIED

    def __str__(self) -> str:
        if not self.holds:
            return f"{self.region}: {self.verdict.value}: {self.reason}"
        what = f"{self.nodes} operators" if self.nodes > 1 else "1 operator"
        hashes = f"program {self.program} computes expression {self.expression}"
        return f"{self.region}: certified: {hashes}, {what}, {self.results:,} results"


def certify_region(
    expression: RegionExpression, given: RegionProgram, seed: int = 0, *, explain: bool = True
) -> RegionCertificate:
    """Whether a program computes the operators of its region. Without `explain`, the reason why one
    does not is short.
    """
    verdict, reason = _judged(expression, given, seed, explain=explain)
    return RegionCertificate(
        region=expression.name,
        verdict=verdict,
        program=given.program.hash,
        expression=hash_of(expression),
        nodes=len(expression.results),
        results=sum(int(np.prod(expression.plain.tensor(name).extents)) for name in expression.unpacked.outputs),
        reason=reason,
    )


def _judged(
    expression: RegionExpression, given: RegionProgram, seed: int, *, explain: bool
) -> tuple[RegionVerdict, str]:
    for tensor, name in given.activations.items():
        if expression.bindings.get(tensor) != name:
            return (
                RegionVerdict.DIFFERS,
                f"{tensor} must be {expression.bindings.get(tensor, 'no activation')}, got {name}",
            )
    try:
        with np.errstate(all="ignore"):
            pairs = _results(expression, given, seed)
            if not _wrong(pairs):
                return RegionVerdict.CERTIFIED, ""
            if not _has_extensions(given.program):
                return RegionVerdict.DIFFERS, _reason(expression, given, seed, pairs, explain=explain)
            count = int(iterations_of(given.program).sum())
            if count > MOST_BY_TABLES:
                return _judged_by_numbers(count, expression, given, seed, pairs)
            functions = SmallFunctions()
            with using(functions):
                return _judged_by_tables(functions, expression, given, seed, explain=explain)
    except CertificateError as error:
        return RegionVerdict.UNKNOWN, str(error)


def _judged_by_numbers(
    count: int, expression: RegionExpression, given: RegionProgram, seed: int, pairs: _Pairs
) -> tuple[RegionVerdict, str]:
    """The verdict on a program that is too large for tables."""
    reason = _reason(expression, given, seed, pairs, explain=False)
    if _differs_on_numbers(expression, given, seed):
        return RegionVerdict.DIFFERS, reason
    rule = "results of extensions must have a form that a lemma shows to be that of the operator"
    most = f"which tables decide in programs of at most {MOST_BY_TABLES:,} iterations"
    return (
        RegionVerdict.UNKNOWN,
        f"{rule}, got another, equal for random inputs, in {count:,} iterations, {most}: {reason}",
    )


def _judged_by_tables(
    functions: SmallFunctions, expression: RegionExpression, given: RegionProgram, seed: int, *, explain: bool
) -> tuple[RegionVerdict, str]:
    """The verdict where functions of one small integer are the same if their tables are."""
    made = _results(expression, given, seed)
    pairs = {name: (functions.canonical(a), functions.canonical(b)) for name, (a, b) in made.items()}
    wrong = _wrong(pairs)
    if not wrong:
        return RegionVerdict.CERTIFIED, ""
    examples = (functions.counterexample(*one) for name in wrong for one in _differing(*pairs[name]))
    named = [one.of["value"] for one in examples if one is not None]
    has_tables = any(node.op == "vdla.QTable" for node in expression.plain.nodes)
    with using(functions if named or has_tables else None):  # which takes longer
        reason = _reason(expression, given, seed, pairs, explain=explain)
    inputs = [one["value"] for one in _unknown_inputs(expression.plain, seed).values()]
    if any(np.isin(named, one).any() for one in inputs) or _differs_on_numbers(expression, given, seed):
        return RegionVerdict.DIFFERS, reason
    if named:  # of results inside the region, which may not have these values
        return RegionVerdict.UNKNOWN, reason
    label = expression.plain.producers[wrong[0]].label
    rule = "results of extensions must have a form that a lemma shows to be that of the operator"
    return RegionVerdict.UNKNOWN, f"{label}: {rule}, got another, equal for random inputs: {reason}"


def _results(expression: RegionExpression, given: RegionProgram, seed: int) -> _Pairs:
    """What a region hands on: of the program, and of its operators."""
    needed = {*expression.packing, *expression.unpacked.outputs}
    with using_bounds():
        wanted = run_graph(expression.plain, _unknown_inputs(expression.plain, seed), needed)
        inputs = {tensor: wanted[name] for name, tensor in expression.packing.items()} | dict(given.constants)
        outputs = SymbolicRun(given.program, inputs, looks_up=True).run()
    made = run_graph(expression.unpacked, _packed(expression, outputs), expression.unpacked.outputs)
    return {name: (made[name], wanted[name]) for name in expression.unpacked.outputs}


def _wrong(pairs: _Pairs) -> list[str]:
    return [name for name, pair in pairs.items() if _differs(*pair).any()]


def _differing(a: Symbols, b: Symbols) -> Iterator[tuple[Symbols, Symbols]]:
    """Pairs of elements that differ, the first ones."""
    for place in np.flatnonzero(_differs(a, b))[:_MOST_SHOWN]:
        yield a.reshape(-1)[place], b.reshape(-1)[place]


def _reason(expression: RegionExpression, given: RegionProgram, seed: int, pairs: _Pairs, *, explain: bool) -> str:
    name = _wrong(pairs)[0]
    label, differing = expression.plain.producers[name].label, _differs(*pairs[name])
    short = f"{label}: {int(differing.sum()):,} of {differing.size:,} results differ"
    return (_explained(expression, given, seed) if explain else "") or short


def _explained(expression: RegionExpression, given: RegionProgram, seed: int) -> str:
    """What differs, nothing where that takes too much work."""
    try:
        return difference(expression, given, run_graph(expression.plain, _unknown_inputs(expression.plain, seed)))
    except CertificateError:
        return ""


def _has_extensions(program: Program) -> bool:
    """Whether steps of extensions or a stage make some results: in another form than the operator
    has them, as bits that are counted are in place of products.
    """
    columns = program.columns
    staged = (columns[:, COL["opcode"]] != Opcode.LOAD) & (columns[:, COL["emit"]] == StagedEmit.STAGE)
    return bool(((columns[:, COL["opcode"]] == EXTENSION) | staged).any())


def _differs_on_numbers(expression: RegionExpression, given: RegionProgram, seed: int) -> bool:
    """Whether some result is another number than the operator's for random inputs."""
    rng, graph = np.random.default_rng(seed), expression.plain
    kinds = {name: graph.tensor(name) for name in graph.inputs}
    ranges = {name: tuple(map(int, limits(kind.dtype))) for name, kind in kinds.items()}
    random = {
        name: rng.integers(low, high, kinds[name].extents, np.int64, endpoint=True)
        for name, (low, high) in ranges.items()
    }
    wanted = run_graph(graph, {name: numbers(array) for name, array in random.items()})
    inputs = {tensor: wanted[name] for name, tensor in expression.packing.items()} | dict(given.constants)
    outputs = SymbolicRun(given.program, inputs, looks_up=True).run()
    made = run_graph(expression.unpacked, _packed(expression, outputs))
    pairs = [(made[name], wanted[name]) for name in expression.unpacked.outputs]
    return any((known(a) & known(b) & (a["low"] != b["low"])).any() for a, b in pairs)


def _differs(a: Symbols, b: Symbols) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(a["value"] != b["value"])


def _unknown_inputs(graph: Graph, seed: int) -> dict[str, Symbols]:
    kinds = {name: graph.tensor(name) for name in graph.inputs}
    return {name: unknowns(name, kind.extents, kind.dtype, seed) for name, kind in kinds.items()}


def _packed(expression: RegionExpression, outputs: Mapping[str, Symbols]) -> dict[str, Symbols]:
    """The packed results by name, in the shapes of their layouts."""
    graph, tensors = expression.unpacked, expression.outputs
    return {name: outputs[tensors[name]].reshape(graph.tensor(name).extents) for name in graph.inputs}


def hash_of(expression: RegionExpression) -> str:
    """The hash of an expression, constants included."""
    digest = hashlib.sha256(str(expression.plain).encode())
    for name, value in expression.plain.constants.items():
        digest.update(f"{name} {value.dtype} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    digest.update(f"{sorted(expression.bindings.items())} {expression.unpacked}".encode())
    return digest.hexdigest()[:16]
