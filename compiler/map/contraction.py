"""A stage of a plain tensor expression as an intrinsic sees it: which tensor each operand reads.

Indices are affine in the axes. An axis that the expression divides, as a channel of a grouped
convolution, is split into its digits first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.arith import affine, simplify
from vdla.compiler.map.errors import MapError
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name


@dataclass(frozen=True, slots=True)
class IndexForm:
    """An index: the sum of coefficient * axis over `terms`, and a constant."""

    terms: Mapping[str, int]
    const: int = 0

    def expr(self) -> ir.Expr:
        """As an expression over the axes."""
        parts: list[ir.Expr] = []
        for axis, factor in self.terms.items():
            var = ir.Var(axis)
            parts.append(var if factor == 1 else ir.Binary("mul", var, ir.Const(factor)))
        total = parts[0] if parts else ir.Const(self.const)
        for part in parts[1:]:
            total = ir.Binary("add", total, part)
        return ir.Binary("add", total, ir.Const(self.const)) if parts and self.const else total


@dataclass(frozen=True, slots=True)
class Padding:
    """An operand that is a padded tensor: `source[p - before]` where `inside` holds, else `fill`.

    `inside` is a condition over the indices p0, p1, ... of the padded tensor.
    """

    source: te.Tensor
    before: tuple[int, ...]
    inside: ir.Expr
    fill: int


@dataclass(frozen=True, slots=True)
class Access:
    """What an operand of the intrinsic reads: a tensor, and the form of each of its indices."""

    tensor: te.Tensor
    forms: tuple[IndexForm, ...]
    padding: Padding | None = None

    @property
    def axes(self) -> frozenset[str]:
        """The axes that the indices use."""
        return frozenset(axis for form in self.forms for axis in form.terms)


@dataclass(frozen=True, slots=True)
class Contraction:
    """A reduction with the operands of an intrinsic.

    `spatial` and `reduce` have the extents of the axes by name; `digits` has, for each dimension of
    the result, the axes that it is made of, the last varying fastest.
    """

    stage: Stage
    spatial: Mapping[str, int]
    reduce: Mapping[str, int]
    digits: tuple[tuple[str, ...], ...]
    operands: Mapping[str, Access]

    @property
    def extents(self) -> dict[str, int]:
        """The extents of all axes."""
        return {**self.spatial, **self.reduce}

    @property
    def macs(self) -> int:
        """Terms of all sums."""
        return prod(self.spatial.values()) * prod(self.reduce.values())


def contractions(sums: te.Tensor, pattern: te.Tensor) -> Iterator[Contraction]:
    """The ways in which the stage of `sums` computes what `pattern`, an intrinsic's output, does.

    Raises:
        MapError: it computes something else, or an index is not affine.
    """
    stage, wanted = sums.stage, pattern.stage
    assert isinstance(wanted, Stage)
    where = f"map {sums.name}"
    if not isinstance(stage, Stage) or stage.reduction is None:
        raise MapError(f"{where}: the stage must be a reduction, got a plain computation")
    assert wanted.reduction is not None
    name, expected = stage.reduction.reducer.name, wanted.reduction.reducer.name
    if name != expected or stage.reduction.starts != wanted.reduction.starts:
        raise MapError(f"{where}: the stage must accumulate by {expected} from {_start(wanted)}, got {name}")
    digits, value, extents = _split_axes(stage)
    bindings = list(_unify(wanted.value.expr, value))
    if not bindings:
        got = f"{ir.expr_text(stage.value.expr)}"
        raise MapError(f"{where}: the value must have the form {ir.expr_text(wanted.value.expr)}, got {got}")
    tensors = {tensor.name: tensor for tensor in stage.reads}
    reduced = [axis_name(axis.name) for axis in stage.reduction.axes]
    of_result = [axis for dimension in digits for axis in dimension]
    entries = {tensor.name: tensor for tensor in wanted.reads}
    for binding in bindings:
        operands = {name: _access(where, tensors[load.buffer], load) for name, load in binding.items()}
        if all(access.tensor.dtype == entries[name].dtype for name, access in operands.items()):
            yield Contraction(
                stage=stage,
                spatial={axis: extents[axis] for axis in of_result},
                reduce={axis: extents[axis] for axis in reduced if axis in extents}
                | {axis: n for axis, n in extents.items() if axis not in of_result},
                digits=digits,
                operands=operands,
            )


def _start(stage: Stage) -> str:
    assert stage.reduction is not None
    return ", ".join(map(ir.expr_text, stage.reduction.starts))


# --- digits ---------------------------------------------------------------------------------------


def _split_axes(stage: Stage) -> tuple[tuple[tuple[str, ...], ...], ir.Expr, dict[str, int]]:
    """The digits of each dimension of the result, the value over them, the extent of every axis."""
    assert stage.reduction is not None
    axes = [axis_name(axis) for axis in stage.axes]
    extents: dict[str, int] = dict(zip(axes, stage.shape, strict=True))
    extents |= {axis_name(axis.name): axis.extent for axis in stage.reduction.axes}
    value = stage.value.expr
    found: dict[str, tuple[str, ...]] = {axis: (axis,) for axis in extents}
    for axis, divisor in _divisors(value, extents).items():
        high, low = f"{axis}_h", f"{axis}_l"
        extents |= {high: extents[axis] // divisor, low: divisor}
        del extents[axis]
        whole = ir.Binary("add", ir.Binary("mul", ir.Var(high), ir.Const(divisor)), ir.Var(low))
        value, found[axis] = ir.substitute(value, {axis: whole}), (high, low)
    ranges = {axis: (0, extent - 1) for axis, extent in extents.items()}
    return tuple(found[axis] for axis in axes), simplify(value, ranges), extents


def _divisors(value: ir.Expr, extents: Mapping[str, int]) -> dict[str, int]:
    """The constant by which each axis is divided, where it divides the extent."""
    found: dict[str, int] = {}
    for e in ir.walk_expr(value):
        match e:
            case ir.Binary(op="floordiv" | "mod", a=ir.Var(name=axis), b=ir.Const(value=divisor)):
                if 1 < int(divisor) < extents[axis] and extents[axis] % int(divisor) == 0:
                    found.setdefault(axis, int(divisor))
    return found


# --- operands -------------------------------------------------------------------------------------


def _unify(pattern: ir.Expr, target: ir.Expr) -> Iterator[dict[str, ir.Load]]:
    """The loads that the operands of a pattern stand for, with commuted operands as well."""
    match pattern, target:
        case ir.Load(buffer=name), ir.Load():
            yield {name: target}
        case ir.Cast(dtype=one, value=a), ir.Cast(dtype=other, value=b) if one == other:
            yield from _unify(a, b)
        case ir.Binary(op=one, a=a, b=b), ir.Binary(op=other, a=c, b=d) if one == other:
            yield from _pairs(_unify(a, c), list(_unify(b, d)))
            if one in ir.COMMUTATIVE_OPS:
                yield from _pairs(_unify(a, d), list(_unify(b, c)))
        case ir.Const(), ir.Const() if pattern == target:
            yield {}


def _pairs(ones: Iterator[dict[str, ir.Load]], others: Sequence[dict[str, ir.Load]]) -> Iterator[dict[str, ir.Load]]:
    for one in ones:
        for other in others:
            yield {**one, **other}


def _access(where: str, tensor: te.Tensor, load: ir.Load) -> Access:
    forms = []
    for dimension, index in enumerate(load.indices):
        found = affine(index)
        if found is None:
            raise MapError(
                f"{where}: index {dimension} of {tensor.name} must be affine in the axes, got {ir.expr_text(index)}"
            )
        forms.append(IndexForm(*found))
    return Access(tensor, tuple(forms), _padding(where, tensor))


def _padding(where: str, tensor: te.Tensor) -> Padding | None:
    """How a computed tensor pads another; None for a placeholder."""
    stage = tensor.stage
    if stage is None:
        return None
    rule = f"{where}: {tensor.name} must be an input, or an input padded by a constant"
    if not isinstance(stage, Stage) or stage.reduction is not None or len(stage.reads) != 1:
        raise MapError(f"{rule}, got another computation")
    places = {axis_name(axis): ir.Var(f"p{d}") for d, axis in enumerate(stage.axes)}
    match ir.substitute(stage.value.expr, places):
        case ir.Select(cond=inside, a=ir.Load() as load, b=ir.Const(value=fill)):
            pass
        case ir.Load() as load:
            inside, fill = ir.Const(True, "bool"), 0
        case value:
            raise MapError(f"{rule}, got {ir.expr_text(value)}")
    before = []
    for d, index in enumerate(load.indices):
        found = affine(index)
        if found is None or found[0] != {f"p{d}": 1}:
            raise MapError(f"{rule}, got index {d} {ir.expr_text(index)}")
        before.append(-found[1])
    (source,) = stage.reads
    if source.stage is not None:
        raise MapError(f"{rule}, got one of the computed {source.name}")
    return Padding(source, tuple(before), inside, int(fill))
