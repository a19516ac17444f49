# SPDX-License-Identifier: Apache-2.0
"""What differs where the program of a region does not compute its operators: an operator, a result,
the terms of it, the instructions and their lines.

The first operator is named some of whose results are not where they belong. Its instructions run
alone then, with more and fewer elements of its operands unknown, which ends at one term.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates.compute_steps import KnownSteps
from vdla.compiler.certificates.elementwise import numbers, unknowns
from vdla.compiler.certificates.functions_in_use import small_functions
from vdla.compiler.certificates.graph_run import run_graph
from vdla.compiler.certificates.program_run import SymbolicRun
from vdla.compiler.certificates.region_program import RegionProgram
from vdla.compiler.certificates.symbols import OPAQUE, CertificateError, Symbols, gathered, known
from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.accelerator import RegionExpression
from vdla.compiler.graph.machine.packing import Channels, PackedLayout
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, EXTENSION, Emit, Opcode
from vdla.hardware.program import Program, ProgramTensor
from vdla.support.errors import Error

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Content = Mapping[str, Any]  # of tensors: symbols, or integers
_ZERO_POINTS = ("x_zero_point", "a_zero_point", "b_zero_point")


@dataclass(frozen=True, slots=True)
class _Stored:
    """The elements of a STORE: their places in a tensor, and their values."""

    instruction: int
    tensor: str
    places: _Ints
    symbols: Symbols

    @property
    def values(self) -> npt.NDArray[np.uint64]:
        """The values of the elements."""
        values: npt.NDArray[np.uint64] = self.symbols["value"]
        return values


@dataclass(frozen=True, slots=True)
class _Located:
    """Where the elements of a result belong: a tensor, and their places in it. What the host makes
    of them is `unpacked` by a graph, if it does more than to move them.
    """

    tensor: str
    places: _Ints
    unpacked: Graph | None = None

    def results(self, content: Symbols) -> Symbols:
        """The result that a flat tensor holds."""
        if self.unpacked is None:
            return content[self.places]
        (packed,), (name,) = self.unpacked.inputs, self.unpacked.outputs
        given = {packed: content.reshape(self.unpacked.tensor(packed).extents)}
        return run_graph(self.unpacked, given, [name])[name]


class _TracedRun(SymbolicRun):
    """A run that keeps what each STORE stores."""

    runs_stores = False

    def __init__(self, program: Program, inputs: _Content) -> None:
        super().__init__(program, inputs, looks_up=True)
        self._latest: _Ints = np.zeros(0, np.int64)  # where the last transfer read or wrote
        self.stores: list[_Stored] = []

    def _places(self, row: Mapping[str, int], tensor: ProgramTensor, elements: int) -> _Ints:
        self._latest = super()._places(row, tensor, elements)
        return self._latest

    def _store(self, row: Mapping[str, int], tensor: ProgramTensor) -> None:
        super()._store(row, tensor)
        self.results.flush()
        places = self._latest.reshape(-1)
        self.stores.append(_Stored(self.index, tensor.name, places, gathered(self.dram[tensor.name], places)))

    def computing(self, store: _Stored, place: int) -> int:
        """The last instruction before a STORE that ends the sum behind an element of it, or -1."""
        row = _row(self.program, store.instruction)
        entry = row["sram"] + int(np.flatnonzero(store.places == place)[0]) // self.out.shape[1]
        uops, last = np.zeros_like(self.uops), -1
        steps = KnownSteps(uops)
        for index in range(store.instruction):
            row, tensor = _row(self.program, index), int(self.program.tensor_of[index])
            if row["opcode"] == Opcode.LOAD and row["buffer"] == Buffer.UOP:
                made = self._micro_ops(row, self.program.tensors[tensor])
                uops[row["sram"] : row["sram"] + len(made)] = made
                steps.forget()
            elif row["opcode"] in (Opcode.GEMM, Opcode.VECTOR, EXTENSION) and row["emit"] != Emit.NONE:
                some = steps.of(row)
                share = 32 // self.config.out_bits if row["emit"] == Emit.RAW else 1
                last = index if np.isin(entry // share, some.out[some.ends]) else last
        return last


def difference(expression: RegionExpression, given: RegionProgram, wanted: Mapping[str, Symbols]) -> str:
    """What differs, given all values of the plain graph, in one sentence; nothing where all results
    are stored where they belong.
    """
    inputs: dict[str, Any] = {tensor: wanted[name] for name, tensor in expression.packing.items()}
    inputs |= given.constants
    run = _TracedRun(given.program, inputs)
    run.run()
    for lines, names, stores in _operators(expression, given, run.stores, wanted):
        where = _located(expression, given.program.config, names[-1], stores, wanted[names[-1]])
        made = None if where is None else _stored(given.program, where, stores)
        wrong = _wrong(wanted[names[-1]], stores, made)
        if wrong.any():
            case = _Case(
                expression=expression,
                given=given,
                inputs=inputs,
                wanted=wanted,
                stores=run.stores,
                lines=lines,
                names=names,
            )
            return _described(case, stores, where, made, wrong)
    return ""


def _operators(
    expression: RegionExpression, given: RegionProgram, stores: Sequence[_Stored], wanted: Mapping[str, Symbols]
) -> Iterator[tuple[range, tuple[str, ...], list[_Stored]]]:
    """The source lines of each operator with instructions, its result, and what it stores.

    A table that is looked up on the way out has no instructions: its results are stored by those of
    the operator before it, whose result is before its own.
    """
    ends = list(accumulate(given.lines, initial=0))
    source = given.program.source_of
    for name, (first, last) in zip(expression.results, pairwise(ends), strict=True):
        if last == first:
            continue
        mine = [one for one in stores if first <= source[one.instruction] < last]
        tables = (
            other
            for other, count in zip(expression.results, given.lines, strict=True)
            if not count and expression.plain.producers[other].inputs[0] == name
        )
        stored = np.concatenate([np.zeros(0, np.uint64), *(one.values for one in mine)])
        result = max((name, *tables), key=lambda one: _held(wanted[one], stored))
        yield range(first, last), (name,) if result == name else (name, result), mine


def _held(wanted: Symbols, stored: npt.NDArray[np.uint64]) -> int:
    """How many results are stored, anywhere."""
    return int(np.isin(wanted["value"], stored).sum())


# --- places ---------------------------------------------------------------------------------------


def _located(
    expression: RegionExpression, config: Config, name: str, stores: Sequence[_Stored], wanted: Symbols
) -> _Located | None:
    """Where the elements of a result belong, if that is known: of what a region hands on, and of
    blocks of channels, of which most elements lie where they belong.
    """
    if name in expression.unpacked.outputs:
        return _handed_on(expression, name)
    for channels in Channels:
        try:
            places_in_blocks = PackedLayout(channels, wanted.shape, config.batch, config.block_out).places
            base = _base(places_in_blocks.reshape(-1), stores, wanted)
        except (Error, ValueError, IndexError):  # such as rows of an image
            continue
        if base is not None:
            return _Located(stores[0].tensor, base + places_in_blocks.reshape(wanted.shape))
    return None


def _base(places: _Ints, stores: Sequence[_Stored], wanted: Symbols) -> int | None:
    """Where a tensor begins, for most results that are stored; None if they lie otherwise."""
    if not stores or any(one.tensor != stores[0].tensor for one in stores):
        return None
    values, at = np.concatenate([one.values for one in stores]), np.concatenate([one.places for one in stores])
    order = np.argsort(values, kind="stable")
    flat = wanted.reshape(-1)
    match = order[np.searchsorted(values, flat["value"], sorter=order).clip(0, len(order) - 1)]
    same = (values[match] == flat["value"]) & ~known(flat)
    if not same.any():
        return int(at.min()) if len(np.unique(at)) >= len(places) else None
    bases, counts = np.unique(at[match[same]] - places[same], return_counts=True)
    most = int(np.argmax(counts))
    return int(bases[most]) if 2 * counts[most] > same.sum() else None


def _handed_on(expression: RegionExpression, name: str) -> _Located:
    """Where a result that a region hands on lies: what the host makes of it changes with each bit
    of the number that a place has.
    """
    graph = expression.unpacked
    packed = graph.inputs[graph.outputs.index(name)]
    graph = Graph(graph.name, (packed,), (name,), _nodes_behind(graph, name), graph.constants, graph.types)
    where, shape = _Located(expression.outputs[packed], np.zeros(0, np.int64), graph), graph.tensor(packed).extents
    numbering = np.arange(int(np.prod(shape)))
    zeros = where.results(numbers(np.zeros_like(numbering)))["low"]
    places = np.zeros(zeros.shape, np.int64)
    for bit in range(len(numbering).bit_length()):
        places |= (where.results(numbers((numbering >> bit) & 1))["low"] != zeros).astype(np.int64) << bit
    moves = (where.results(numbers(numbering))["low"] == places).all()
    return replace(where, places=places, unpacked=None if moves else graph)


def _nodes_behind(graph: Graph, name: str) -> tuple[Node, ...]:
    """The nodes that compute a value."""
    needed = {name}
    for node in reversed(graph.nodes):
        if needed & {*node.outputs}:
            needed |= {*node.inputs}
    return tuple(node for node in graph.nodes if needed & {*node.outputs})


def _stored(program: Program, where: _Located, stores: Sequence[_Stored]) -> Symbols:
    """The result that a program stores; elements that it does not store are unknown."""
    (shape,) = (tensor.shape for tensor in program.tensors if tensor.name == where.tensor)
    content = unknowns("not stored", (int(np.prod(shape)),), "int32", 0)
    for one in stores:
        if one.tensor == where.tensor:
            content.view(OPAQUE)[one.places] = one.symbols.view(OPAQUE)
    return where.results(content)


def _wrong(wanted: Symbols, stores: Sequence[_Stored], made: Symbols | None) -> _Bools:
    """Which elements of a result are not stored where they belong, or nowhere."""
    if made is None:
        stored = np.concatenate([np.zeros(0, np.uint64), *(one.values for one in stores)])
        return np.asarray(~np.isin(wanted["value"], stored))
    return np.asarray(made["value"] != wanted["value"])


# --- terms ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Case:
    """An operator of a region whose results differ: its source lines, and its result, behind the
    one that a table takes.
    """

    expression: RegionExpression
    given: RegionProgram
    inputs: _Content
    wanted: Mapping[str, Symbols]
    stores: Sequence[_Stored]
    lines: range
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """The result that differs."""
        return self.names[-1]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The operator, and the table behind it."""
        return tuple(self.expression.plain.producers[name] for name in self.names)

    @property
    def operands(self) -> dict[str, int]:
        """The zero points of the unknown operands."""
        (node, *_), constants = self.nodes, self.expression.plain.constants
        names = [name for name in node.inputs if name and name not in constants]
        zeros = [node.attributes[one] for one in _ZERO_POINTS if one in node.attributes]
        return {name: int(zeros[k]) if k < len(zeros) else 0 for k, name in enumerate(names)}

    @property
    def instructions(self) -> _Ints:
        """The instructions of the operator; those of its neighbours may be between them."""
        source = self.given.program.source_of
        return np.flatnonzero((source >= self.lines.start) & (source < self.lines.stop))


class _Trials:
    """Runs of the instructions of one operator alone, on other operands."""

    def __init__(self, case: _Case, where: _Located, element: tuple[int, ...]) -> None:
        self._case, self._where, self._element = case, where, element
        program, mine = case.given.program, case.instructions
        others = np.setdiff1d(np.arange(mine[-1]), mine)
        opcodes, buffers = (program.columns[others, COL[name]] for name in ("opcode", "buffer"))
        micro_ops = others[(opcodes == Opcode.LOAD) & (buffers == Buffer.UOP)]
        self._program = _part(program, np.union1d(micro_ops, mine))
        self._content = {**case.inputs, **self._with_operands()}
        self._sources = {name: self._source(case.wanted[name]) for name in case.operands}
        graph = case.expression.plain
        self._graph = Graph(
            graph.name, tuple(case.operands), (case.name,), case.nodes, dict(graph.constants), dict(graph.types)
        )

    def _with_operands(self) -> dict[str, Symbols]:
        """The tensors with all that the program stores of the operands, whatever overwrites it."""
        case = self._case
        tensors = SymbolicRun(_part(case.given.program, np.arange(0)), case.inputs, looks_up=True).dram.tensors
        operands = [case.wanted[name].reshape(-1) for name in case.operands]
        values = np.concatenate([one["value"][~known(one)] for one in operands])
        for one in case.stores:
            here = np.isin(one.values, values)
            if one.instruction < case.instructions[-1] and here.any():
                tensors[one.tensor].view(OPAQUE)[one.places[here]] = one.symbols.view(OPAQUE)[here]
        return tensors

    def _source(self, operand: Symbols) -> dict[str, tuple[_Ints, _Ints]]:
        """Where elements of an operand lie in tensors: their places, and which they are."""
        flat = operand.reshape(-1)
        unknown = np.flatnonzero(~known(flat))
        order = unknown[np.argsort(flat["value"][unknown])]
        made = {}
        for name, content in self._content.items():
            if content.dtype != flat.dtype or not len(order):
                continue
            values = content.reshape(-1)["value"]
            which = order[np.searchsorted(flat["value"][order], values).clip(0, len(order) - 1)]
            places = np.flatnonzero(flat["value"][which] == values)
            if len(places):
                made[name] = places, which[places]
        return made

    @property
    def covered(self) -> bool:
        """Whether all operands lie in tensors as they are."""
        return all(self._sources.values())

    def results(self, operands: Mapping[str, Symbols]) -> tuple[Symbols, Symbols]:
        """What the instructions store where the result belongs, and what they must, as results."""
        content = dict(self._content)
        for operand, source in self._sources.items():
            for name, (places, which) in source.items():
                changed = np.array(content[name]).reshape(-1)
                changed.view(OPAQUE)[places] = operands[operand].reshape(-1).view(OPAQUE)[which]
                content[name] = changed.reshape(content[name].shape)
        run = SymbolicRun(self._program, content, looks_up=True)
        run.run()
        wanted = run_graph(self._graph, operands, [self._case.name])[self._case.name]
        return self._where.results(run.dram[self._where.tensor]), wanted

    def pair(self, operands: Mapping[str, Symbols]) -> tuple[Symbols, Symbols]:
        """The element, of the program and of the operator."""
        made, wanted = self.results(operands)
        return made[self._element], wanted[self._element]

    def differ(self, operands: Mapping[str, Symbols]) -> bool:
        """Whether the element differs."""
        made, wanted = self.pair(operands)
        return bool(made["value"] != wanted["value"])


def _part(program: Program, some: _Ints) -> Program:
    """Some of the instructions of a program."""
    parts: dict[str, Any] = {name: getattr(program, name)[some] for name in ("words", "tensor_of", "source_of")}
    return replace(program, **parts)


def _cause(case: _Case, where: _Located, element: tuple[int, ...], wrong: _Bools, value: int) -> tuple[str, bool]:
    """Why an element differs, which is a value, nothing where nobody can tell; and whether the
    reason are terms.
    """
    trials = _Trials(case, where, element)
    kept = {name: case.wanted[name] for name in case.operands}
    if not trials.covered or int(trials.pair(kept)[0]["value"]) != value:
        return "", False
    for zeros in (dict.fromkeys(kept, 0), case.operands):
        rest = {name: np.broadcast_to(numbers(zero), kept[name].shape) for name, zero in zeros.items()}
        if not trials.differ(rest):
            terms = _terms(trials, kept, rest, wrong)
            return terms, bool(terms)
    made, right = trials.pair(rest)
    got = f"is {int(made['low'])}" if known(made) else "depends on something else"
    zero = "at their zero points" if any(case.operands.values()) else "0"
    return f"differs with all operands {zero}: it {got}, and must be {int(right['low'])}", False


def _terms(trials: _Trials, kept: Mapping[str, Symbols], rest: Mapping[str, Symbols], wrong: _Bools) -> str:
    """The first term with which an element differs that does not with the operands `rest`."""
    ends = list(accumulate((array.size for array in kept.values()), initial=0))

    def first(count: int) -> dict[str, Symbols]:
        """The first elements of the operands, the others as in `rest`."""
        counts = (min(max(count - begin, 0), kept[name].size) for name, begin in zip(kept, ends, strict=False))
        return {name: _begin(kept[name], rest[name], some) for name, some in zip(kept, counts, strict=True)}

    same, different = 0, ends[-1]
    while different - same > 1:
        middle = (same + different) // 2
        same, different = (same, middle) if trials.differ(first(middle)) else (middle, different)
    made, wanted = trials.results(first(different))
    if (made["value"] != wanted["value"])[~wrong].any():  # the operands mean something else here
        return ""
    (one, right), (none, _) = trials.pair(first(different)), trials.pair(first(same))
    at = bisect_right(ends, same) - 1
    name = list(kept)[at]
    index = np.unravel_index(same - ends[at], kept[name].shape)
    term = f"the term of {name}[{', '.join(map(str, index))}]"
    if one["value"] == none["value"]:
        return f"lacks {term}"
    return f"has {term} too much" if right["value"] == none["value"] else f"differs from {term} on"


def _begin(array: Symbols, rest: Symbols, count: int) -> Symbols:
    """The first elements of an array, and the others of `rest`."""
    made = rest.copy()
    made.reshape(-1).view(OPAQUE)[:count] = array.reshape(-1).view(OPAQUE)[:count]
    return made


# --- words ----------------------------------------------------------------------------------------


def _described(
    case: _Case, stores: Sequence[_Stored], where: _Located | None, made: Symbols | None, wrong: _Bools
) -> str:
    elements = [tuple(map(int, one)) for one in np.argwhere(wrong)]
    label = case.expression.plain.producers[case.name].label
    text = f"{label}: {len(elements):,} of {wrong.size:,} results differ, the first is {_shown(case, elements[0])}"
    if where is None and not stores:
        return f"{text}; no instruction stores it"
    if where is None or made is None:
        return f"{text}; instructions {stores[0].instruction} to {stores[-1].instruction} store them"
    misplaced = _misplaced(case, stores, where, elements[0])
    return "; ".join([text, *([misplaced] if misplaced else _computed(case, stores, where, made, elements, wrong))])


def _shown(case: _Case, element: tuple[int, ...]) -> str:
    return f"{case.name}[{', '.join(map(str, element))}]"


def _at_place(stores: Sequence[_Stored], where: _Located, element: tuple[int, ...]) -> list[_Stored]:
    """What is stored where an element belongs."""
    place = where.places[element]
    return [one for one in stores if one.tensor == where.tensor and (one.places == place).any()]


def _misplaced(case: _Case, stores: Sequence[_Stored], where: _Located, element: tuple[int, ...]) -> str:
    """The instruction that stores an element at another place, or that there is none; nothing where
    something else is stored for it.
    """
    wanted = case.wanted[case.name][element]
    elsewhere = [one for one in stores if (one.values == wanted["value"]).any()] if not known(wanted) else []
    if elsewhere:
        index = elsewhere[-1].instruction
        return f"instruction {index} stores it at another place, {_line(case, index)}"
    return "" if _at_place(stores, where, element) else "no instruction stores it"


def _computed(
    case: _Case,
    stores: Sequence[_Stored],
    where: _Located,
    made: Symbols,
    elements: Sequence[tuple[int, ...]],
    wrong: _Bools,
) -> Iterator[str]:
    """Why an element differs, the first one, or one amidst the others if that has terms; the
    instructions that compute and store it.
    """
    chosen, cause = elements[0], ""
    centre = (np.array(wrong.shape) - 1) / 2
    amidst = min(elements, key=lambda one: float((np.abs(one - centre) / wrong.shape).sum()))
    for one in dict.fromkeys((elements[0], amidst)):
        if not _at_place(stores, where, one):
            continue
        if example := _of_a_table(case, made[one], one):
            chosen, cause = one, example
            break
        try:
            reason, is_of_terms = _cause(case, where, one, wrong, int(made[one]["value"]))
        except CertificateError:  # such as too much work
            continue
        if is_of_terms or not cause:
            chosen, cause = one, reason
        if is_of_terms:
            break
    if cause:
        yield f"{'it' if chosen == elements[0] else _shown(case, chosen)} {cause}"
    last = _at_place(stores, where, chosen)[-1]
    computing = _TracedRun(case.given.program, case.inputs).computing(last, int(where.places[chosen]))
    computes = f"instruction {computing} computes it, {_line(case, computing)}"
    yield computes if computing in case.instructions else "no instruction computes it"
    yield f"instruction {last.instruction} stores it, {_line(case, last.instruction)}"


def _of_a_table(case: _Case, made: Symbols, element: tuple[int, ...]) -> str:
    """What an element is that is a function of one small integer, for a value of which it differs;
    nothing for others.
    """
    functions = small_functions()
    shown = None if functions is None else functions.counterexample(made, case.wanted[case.name][element])
    if shown is None:
        return ""
    value = f"is {shown.value}, and must be {shown.second}"
    for name, array in case.wanted.items():
        places = np.argwhere(array["value"] == shown.of["value"])
        if len(places):
            return f"is {shown.first} where {name}[{', '.join(map(str, places[0]))}] {value}"
    return f"is {shown.first} where the integer that it depends on {value}"


def _line(case: _Case, index: int) -> str:
    """The line of the operator's loop nest that an instruction is of."""
    program = case.given.program
    source = int(program.source_of[index])
    if source < 0:
        return "for no line of it"
    text = program.source_lines[source].partition("#")[0].partition("(")[0].strip().rstrip(":")
    return f"for line {source - case.lines.start + 1} of its loop nest, {text}"


def _row(program: Program, index: int) -> dict[str, int]:
    return dict(zip(COL, program.columns[index].tolist(), strict=False))
