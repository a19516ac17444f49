# SPDX-License-Identifier: Apache-2.0
"""What the operands of an intrinsic stand for in an expression: two trees compared node by node,
commutative operations in both orders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.arith import Linear, Range, linear, simplify
from vdla.compiler.extensions import digit_splits, split_load
from vdla.compiler.map.access import Access, access_of
from vdla.compiler.map.cores import Core
from vdla.compiler.map.entries import entry_extents, lookup_tables, whole_axis, whole_dims
from vdla.compiler.map.expression_parts import MapError, Pairs, Table, index_pairs, is_table
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.compiler.tensorize import IMMEDIATE, Intrinsic


@dataclass(frozen=True, slots=True)
class AxisPlace:
    """A part of an intrinsic's value that is no data, and what stands for it: sums of axes.

    `immediate`, times `sign`, is part of the pattern; the value that it must have follows from the
    mapping.
    """

    pattern: Linear
    plain: Linear
    immediate: str | None = None
    sign: int = 1


Binding = dict[str, ir.Expr | AxisPlace]
"""What each operand stands for, a table for the load of its tensor; and places by their text.

The load of an operand has its whole dimensions as axes.
"""


@dataclass(frozen=True, slots=True)
class Binder:
    """Compares parts of the value of `intrinsic` with expressions over `tensors`.

    `stands_for(operand, part)` says whether an operand that is not a table may stand for a part.
    """

    intrinsic: Intrinsic
    tensors: Mapping[str, te.Tensor]
    stands_for: Callable[[str, ir.Expr], bool]

    def bind(self, pattern: ir.Expr, target: ir.Expr) -> Iterator[Binding]:
        """All ways in which `pattern` is `target`."""
        if (place := self._place(pattern, target)) is not None:
            yield {ir.expr_text(pattern): place}
            return
        match pattern, target:
            case ir.Load(buffer=name), ir.Load() if name in lookup_tables(self.intrinsic):
                yield from self._table(pattern, target)
            case ir.Load(buffer=name), ir.Load() if name in whole_dims(self.intrinsic):
                yield from self._entry(pattern, target)
            case ir.Load(buffer=name), _ if name not in (*self.intrinsic.tables, *whole_dims(self.intrinsic)):
                if self.stands_for(name, target):
                    yield {name: target}
            case ir.Cast(dtype=one, value=a), ir.Cast(dtype=other, value=b) if one == other:
                yield from self.bind(a, b)
            case ir.Binary(op=one, a=a, b=b), ir.Binary(op=other, a=c, b=d) if one == other:
                yield from self._all(((a, c), (b, d)))
                if one in ir.COMMUTATIVE_OPS:
                    yield from self._all(((a, d), (b, c)))
            case (ir.Call(name=one), ir.Call(name=other)) if one == other:
                yield from self._all(tuple(zip(pattern.args, target.args, strict=True)))
            case ir.Select(), ir.Select():
                yield from self._all(tuple(zip(ir.operands(pattern), ir.operands(target), strict=True)))
            case ir.Const(), ir.Const() if pattern == target:
                yield {}

    def _table(self, pattern: ir.Load, target: ir.Load) -> Iterator[Binding]:
        entry = self.intrinsic.behaviour.buffers[pattern.buffer]
        if target.buffer not in self.tensors or self.tensors[target.buffer].dtype != entry.dtype:
            return
        for pairs in index_pairs(pattern, entry.dims, target, self.tensors[target.buffer]):
            for binding in self._all(pairs):
                yield {pattern.buffer: target, **binding}

    def _entry(self, pattern: ir.Load, target: ir.Load) -> Iterator[Binding]:
        """An operand with whole dimensions: each has as many elements as one of the tensor, and the
        same index.
        """
        name, dims = pattern.buffer, whole_dims(self.intrinsic)[pattern.buffer]
        if target.buffer not in self.tensors or not self.stands_for(name, target):
            return
        sizes = self.intrinsic.behaviour.buffers[name].dims
        shape = tuple(map(int, self.tensors[target.buffer].shape))
        for chosen in permutations(range(len(shape)), len(dims)):
            indices = list(target.indices)
            for d, at in zip(dims, chosen, strict=True):
                indices[at] = ir.Var(whole_axis(name, d))
            fits = all(sizes[d] == shape[at] for d, at in zip(dims, chosen, strict=True))
            if fits and not any(map(ir.reads_memory, indices)):
                pairs = tuple((pattern.indices[d], target.indices[at]) for d, at in zip(dims, chosen, strict=True))
                for binding in self._all(pairs):
                    yield {name: ir.Load(target.buffer, tuple(indices)), **binding}

    def _place(self, pattern: ir.Expr, target: ir.Expr) -> AxisPlace | None:
        """Sums of axes that are no data on both sides, with at most one immediate."""
        if isinstance(pattern, ir.Const | ir.Cast) or any(isinstance(e, ir.Load) for e in ir.walk_expr(target)):
            return None
        ours, theirs = linear(pattern), linear(target)
        loads = [term for term in ours.terms if isinstance(term, ir.Load)]
        names = [load.buffer for load in loads if self.intrinsic.scopes[load.buffer] == IMMEDIATE]
        known = all(isinstance(term, ir.Var | ir.Load) for term in ours.terms)
        affine = all(isinstance(term, ir.Var) for term in theirs.terms)
        if not ours.terms or not known or not affine or len(loads) > 1 or len(names) != len(loads):
            return None
        if not loads:
            return AxisPlace(ours, theirs)
        factor = ours.terms[loads[0]]
        if abs(factor) != 1 or (isinstance(pattern, ir.Load) and isinstance(target, ir.Const)):
            return None
        return AxisPlace(ours, theirs, names[0], factor)

    def _all(self, pairs: Pairs) -> Iterator[Binding]:
        """All ways in which the parts of every pair are the same at once."""
        if not pairs:
            yield {}
            return
        for one in self.bind(*pairs[0]):
            for other in self._all(pairs[1:]):
                if all(other[name] == part for name, part in one.items() if name in other):
                    yield {**one, **other}


@dataclass(frozen=True, slots=True)
class FromOperand:
    """An entry of an operand of the computation."""

    name: str


@dataclass(frozen=True, slots=True)
class FromTable:
    """A table of the computation, whole."""

    name: str


@dataclass(frozen=True, slots=True)
class FromStep:
    """The result of an earlier step."""

    name: str


@dataclass(frozen=True, slots=True)
class FromLanes:
    """The entry of the lanes of a result."""

    name: str


@dataclass(frozen=True, slots=True)
class FromPlace:
    """An immediate that follows loops."""


Read = FromOperand | FromTable | FromStep | FromLanes | FromPlace | ir.Const


@dataclass(frozen=True, slots=True)
class Step:
    """One intrinsic on entries, and what each of its operands reads."""

    name: str
    intrinsic: Intrinsic
    reads: Mapping[str, Read]


@dataclass(frozen=True, slots=True)
class LaneRead:
    """An operand that depends on the lane of a result alone: a factor for each channel.

    `indices` are those of `tensor`, over axes of the result and whole dimensions of `operand`, the
    operand of `intrinsic` that reads it.
    """

    tensor: te.Tensor
    indices: tuple[ir.Expr, ...]
    intrinsic: Intrinsic
    operand: str

    @property
    def buffer(self) -> ir.Buffer:
        """An entry."""
        return self.intrinsic.behaviour.buffers[self.operand]


@dataclass(frozen=True, slots=True)
class AfterSums:
    """What is done to finished sums before they leave the accumulator.

    The first of `steps` reads the sums, the last one computes `stage`.
    """

    stage: Stage
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Computation:
    """The sums of an operator, in steps; only the last one may accumulate. `after` has the steps on
    finished sums.

    `spatial` and `reduce` have the extents of the axes by name; `digits` has, for each dimension of
    the result, the axes that it is made of, the last varying fastest. `held` is the operand that is
    loaded as weights; windows move over the others. `tables` are loaded once, and so are `lanes`.
    `whole` has the dimensions of operands that an entry has whole, and `places` the parts of values
    that are no data.
    """

    stage: Stage
    spatial: Mapping[str, int]
    reduce: Mapping[str, int]
    digits: tuple[tuple[str, ...], ...]
    operands: Mapping[str, Access]
    steps: tuple[Step, ...]
    held: str | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    whole: Mapping[str, int] = field(default_factory=dict)
    places: tuple[AxisPlace, ...] = ()
    lanes: Mapping[str, LaneRead] = field(default_factory=dict)
    after: AfterSums | None = None

    @property
    def result(self) -> Stage:
        """The stage of what leaves the accumulator."""
        return self.stage if self.after is None else self.after.stage

    @property
    def steps_after(self) -> tuple[Step, ...]:
        """The steps on finished sums."""
        return () if self.after is None else self.after.steps

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """All steps in order."""
        return (*self.steps, *self.steps_after)

    @property
    def extents(self) -> dict[str, int]:
        """The extents of all axes and of whole dimensions."""
        return {**self.spatial, **self.reduce, **self.whole}

    @property
    def core(self) -> Intrinsic:
        """The intrinsic of the last step."""
        return self.steps[-1].intrinsic

    @property
    def streamed(self) -> tuple[str, ...]:
        """The operands over which windows move."""
        return tuple(name for name in self.operands if name != self.held)

    @property
    def macs(self) -> int:
        """Terms of all sums."""
        return prod(self.spatial.values()) * prod(self.reduce.values())


def contractions(sums: te.Tensor, core: Core) -> Iterator[Computation]:
    """The ways in which the stage of `sums` matches an intrinsic: it accumulates the same terms or,
    for an intrinsic without accumulation, computes the same value.

    Raises:
        MapError: it computes something else, or an index has no form.
    """
    stage, wanted = sums.stage, core.pattern.output.stage
    assert isinstance(wanted, Stage)
    if not isinstance(stage, Stage) or (stage.reduction is None) != (wanted.reduction is None):
        kinds = ("a plain computation", "a reduction")
        must, got = kinds if wanted.reduction is None else kinds[::-1]
        raise MapError(f"the stage must be {must}, got {got}")
    _require_reducer(stage, wanted)
    axes, tensors = _with_digits(PlainAxes.of(stage, stage.value.expr), stage.reads)
    binder = Binder(core.pattern, tensors, partial(_stands_for, core.pattern))
    bindings = list(binder.bind(wanted.value.expr, axes.value))
    if not bindings:
        got = f"{ir.expr_text(axes.value)}"
        raise MapError(f"the value must have the form {ir.expr_text(wanted.value.expr)}, got {got}")
    entries = {tensor.name: tensor for tensor in wanted.reads}
    for binding in _of_dtypes(bindings, tensors, entries):
        loads = {name: part for name, part in binding.items() if isinstance(part, ir.Load)}
        tables = {
            name: Table(tensors[load.buffer], core.pattern.behaviour.buffers[name].dims)
            for name, load in loads.items()
            if name in lookup_tables(core.pattern)
        }
        operands = {name: access_of(tensors[load.buffer], load) for name, load in loads.items() if name not in tables}
        reads: dict[str, Read] = {name: part for name, part in binding.items() if isinstance(part, ir.Const)}
        reads |= {name: FromOperand(name) for name in operands} | {name: FromTable(name) for name in tables}
        places = tuple(part for part in binding.values() if isinstance(part, AxisPlace))
        reads |= {place.immediate: FromPlace() for place in places if place.immediate is not None}
        step = Step(stage.name, core.issued, reads)
        yield Computation(
            stage=stage,
            spatial=axes.spatial,
            reduce=axes.reduce,
            digits=axes.digits,
            operands=operands,
            steps=(step,),
            held=core.held,
            tables=tables,
            whole={axis: extent for axis, extent in entry_extents(core.pattern).items() if "." in axis},
            places=places,
        )


def _with_digits(axes: PlainAxes, reads: Sequence[te.Tensor]) -> tuple[PlainAxes, dict[str, te.Tensor]]:
    """The axes and the tensors, with a dimension for each digit of an index that depends on data,
    or of several indices: x[4 * k + chosen] as x[k, chosen].
    """
    tensors = {tensor.name: tensor for tensor in reads}
    loads = {e for e in ir.walk_expr(axes.value) if isinstance(e, ir.Load) and tensors[e.buffer].stage is None}
    counts = Counter(load.buffer for load in loads)
    names = {load.buffer for load in loads if is_table(load) or counts[load.buffer] > 1}
    shapes = {name: tuple(map(int, tensors[name].shape)) for name in sorted(names)}
    extents = {**axes.spatial, **axes.reduce}
    splits = digit_splits(axes.value, shapes, extents)
    value = ir.transform(axes.value, lambda part: split_load(part, splits, extents))
    return replace(axes, value=value), tensors | {name: _split(tensors[name], dims) for name, dims in splits.items()}


def _split(tensor: te.Tensor, dims: Sequence[Sequence[int]]) -> te.Tensor:
    """A tensor with several dimensions in place of one."""

    def value(*at: te.Value) -> te.Value:
        digits, indices = iter(at), list[te.Value]()
        for extents in dims:
            index = next(digits)
            for extent in extents[1:]:
                index = index * extent + next(digits)
            indices.append(index)
        return tensor[tuple(indices)]

    result: te.Tensor = te.compute([extent for extents in dims for extent in extents], value, tensor.name)
    return result


def _of_dtypes(
    bindings: Sequence[Binding], tensors: Mapping[str, te.Tensor], entries: Mapping[str, te.Tensor]
) -> list[Binding]:
    """The bindings whose tensors have the types of the entries; MapError if no binding has."""
    types = [
        {name: _dtype(part, tensors) for name, part in binding.items() if not isinstance(part, AxisPlace)}
        for binding in bindings
    ]
    wanted = {name: entries[name].dtype for name in types[0]}
    result = [binding for binding, dtype in zip(bindings, types, strict=True) if dtype == wanted]
    if not result:
        rule = f"{', '.join(wanted)} must be {', '.join(wanted.values())}"
        raise MapError(f"{rule}, got {', '.join(types[0].values())}")
    return result


def _dtype(part: ir.Expr, tensors: Mapping[str, te.Tensor]) -> str:
    return part.dtype if isinstance(part, ir.Const) else tensors[part.buffer].dtype if isinstance(part, ir.Load) else ""


def _stands_for(pattern: Intrinsic, operand: str, part: ir.Expr) -> bool:
    """Whether an operand may stand for an element, or an immediate for a number."""
    if isinstance(part, ir.Const):
        return pattern.allows(operand, part.value)
    return isinstance(part, ir.Load) and pattern.scopes[operand] != IMMEDIATE


def _require_reducer(stage: Stage, wanted: Stage) -> None:
    """MapError unless two reductions accumulate in the same way."""
    if stage.reduction is None or wanted.reduction is None:
        return
    name, expected = stage.reduction.reducer.name, wanted.reduction.reducer.name
    if name != expected or stage.reduction.starts != wanted.reduction.starts:
        raise MapError(f"the stage must accumulate by {expected} from {_start(wanted)}, got {name}")


def _start(stage: Stage) -> str:
    assert stage.reduction is not None
    return ", ".join(map(ir.expr_text, stage.reduction.starts))


# --- axes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlainAxes:
    """The axes of a stage: its value over them, their extents, the digits of each dimension."""

    value: ir.Expr
    spatial: Mapping[str, int]
    reduce: Mapping[str, int]
    digits: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(stage: Stage, value: ir.Expr) -> PlainAxes:
        """The axes of `value` at the index of a stage; those that it divides are split."""
        axes = [axis_name(axis) for axis in stage.axes]
        extents: dict[str, int] = dict(zip(axes, stage.shape, strict=True))
        if stage.reduction is not None:
            extents |= {axis_name(axis.name): axis.extent for axis in stage.reduction.axes}
        groups: dict[str, tuple[str, ...]] = {axis: (axis,) for axis in extents}
        for axis, divisor in _divisors(value, extents).items():
            high, low = f"{axis}_h", f"{axis}_l"
            extents |= {high: extents[axis] // divisor, low: divisor}
            del extents[axis]
            whole = ir.Binary("add", ir.Binary("mul", ir.Var(high), ir.Const(divisor)), ir.Var(low))
            value, groups[axis] = ir.substitute(value, {axis: whole}), (high, low)
        digits = tuple(groups[axis] for axis in axes)
        result = [axis for dimension in digits for axis in dimension]
        return PlainAxes(
            value=_simplified_indices(value, {axis: (0, extent - 1) for axis, extent in extents.items()}),
            spatial={axis: extents[axis] for axis in result},
            reduce={axis: extent for axis, extent in extents.items() if axis not in result},
            digits=digits,
        )


def _simplified_indices(expr: ir.Expr, ranges: Mapping[str, Range]) -> ir.Expr:
    """`expr` with the indices of its loads simplified."""
    if isinstance(expr, ir.Load):
        return ir.Load(expr.buffer, tuple(_simplified(index, ranges) for index in expr.indices))
    return ir.map_operands(expr, lambda operand: _simplified_indices(operand, ranges))


def _simplified(index: ir.Expr, ranges: Mapping[str, Range]) -> ir.Expr:
    """An index with the parts simplified that are no data."""
    if not ir.reads_memory(index):
        return simplify(index, ranges)
    if isinstance(index, ir.Load):
        return _simplified_indices(index, ranges)
    return ir.map_operands(index, lambda operand: _simplified(operand, ranges))


def _divisors(value: ir.Expr, extents: Mapping[str, int]) -> dict[str, int]:
    """The constant by which each axis is divided, where it divides the extent."""
    result: dict[str, int] = {}
    for e in ir.walk_expr(value):
        match e:
            case ir.Binary(op="floordiv" | "mod", a=ir.Var(name=axis), b=ir.Const(value=divisor)):
                if 1 < int(divisor) < extents[axis] and extents[axis] % int(divisor) == 0:
                    result.setdefault(axis, int(divisor))
    return result
