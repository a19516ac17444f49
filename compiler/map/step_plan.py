# SPDX-License-Identifier: Apache-2.0
"""Expressions as steps: the fewest intrinsics that compute them, element by element.

An expression is covered from its root, like a tree by an instruction selector. An intrinsic's
operand stands for an element of a window, an immediate, an element of the lane of a result, or the
result of an earlier step. A stage that is read several times is a step of its own, and no step
overwrites it before the last one that reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from vdla.compiler import ir, te
from vdla.compiler.map.computation import (
    AxisPlace,
    Binder,
    FromLanes,
    FromOperand,
    FromStep,
    FromTable,
    LaneRead,
    PlainAxes,
    Read,
    Step,
)
from vdla.compiler.map.cores import Core
from vdla.compiler.map.entries import lookup_tables, whole_dims
from vdla.compiler.map.expression_parts import MapError, Table, is_table
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.compiler.tensorize import IMMEDIATE
from vdla.hardware.factors import MAX_FACTOR


def planned(output: te.Tensor, cores: Sequence[Core], sums: te.Tensor | None = None) -> StepPlan:
    """The steps that compute `output` from plain inputs, or from finished `sums`, which it reads at
    its own index.

    Raises:
        MapError: some part of the expression is not an operation of an intrinsic.
    """
    kept: frozenset[str] = frozenset()
    while True:  # until no step overwrites what others read
        plan = StepPlan(cores=cores, shared=_shared(output, sums), sums=sums, kept=kept)
        plan.append_all(output)
        several = plan.read_several_times - kept
        if not several:
            return plan
        kept |= several


# --- stages ---------------------------------------------------------------------------------------


def is_step(tensor: te.Tensor) -> bool:
    """Whether a tensor is computed by steps; others are operands."""
    return tensor.stage is not None and tensor.dtype == "int32"


def _shared(last: te.Tensor, sums: te.Tensor | None = None) -> dict[str, te.Tensor]:
    """The stages below `last` that are read several times, each after those that it reads; those
    above finished `sums`, if there are some.
    """
    counts: dict[str, int] = {}
    result: dict[str, te.Tensor] = {}
    moved: dict[str, ir.Load] = {}

    def visit(tensor: te.Tensor) -> None:
        stage = tensor.stage
        if not isinstance(stage, Stage) or stage.reduction is not None:
            raise MapError(f"{tensor.name} must be element-wise, got another computation")
        inner = {source.name: source for source in stage.reads if is_step(source) and source is not sums}
        here = tuple(ir.Var(axis_name(axis)) for axis in stage.axes)
        for load in (e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load) and e.buffer in inner):
            counts[load.buffer] = counts.get(load.buffer, 0) + 1
            moved.update({load.buffer: load} if load.indices != here else {})
        for source in inner.values():
            if source.name not in result:
                visit(source)
                result[source.name] = source

    visit(last)
    shared = {name: tensor for name, tensor in result.items() if counts[name] > 1}
    for name in shared:
        if name in moved:
            rule = f"{name}, which is read several times, must be read at the index of its reader"
            raise MapError(f"{rule}, got {ir.expr_text(moved[name])}")
    return shared


# --- covering -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cover:
    """An intrinsic at the root of an expression, what its operands stand for, and all steps."""

    core: Core
    operands: Mapping[str, ir.Expr]
    steps: int


@dataclass
class StepPlan:
    """The steps so far, and the operands that they read; beside finished `sums` all but tables are
    `lanes`. Results of steps that are `kept` are copied for a step that would overwrite them.
    `axes` are those of the last value, without finished sums.
    """

    cores: Sequence[Core]
    shared: Mapping[str, te.Tensor]
    sums: te.Tensor | None = None
    kept: frozenset[str] = frozenset()
    steps: list[Step] = field(default_factory=list)
    operands: dict[ir.Load, str] = field(default_factory=dict)
    tensors: dict[str, te.Tensor] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    lanes: dict[str, LaneRead] = field(default_factory=dict)
    axes: PlainAxes | None = None
    _known: dict[ir.Expr, _Cover | None] = field(default_factory=dict)

    def append_all(self, output: te.Tensor) -> None:
        """Append the steps of `output`, those of shared stages first."""
        stage = output.stage
        assert isinstance(stage, Stage), "a computed tensor"
        for tensor in self.shared.values():
            self._append_value(stage, self._at_index_of(stage, tensor), tensor.name)
        self._append_value(stage, self.value(stage), stage.name)

    def _append_value(self, stage: Stage, value: ir.Expr, name: str) -> None:
        """Append the steps of a value, at the index of `stage`, without divided axes."""
        if self.sums is None:
            self.axes = PlainAxes.of(stage, value)
            value = self.axes.value
        here = tuple(ir.Var(axis_name(axis)) for axis in stage.axes)
        for load in (e for e in ir.walk_expr(value) if isinstance(e, ir.Load) and self._is_sums(e)):
            if load.indices != here:
                raise MapError(f"{stage.name} must read {load.buffer} at its own index, got {ir.expr_text(load)}")
        self.append(value, name)

    def _at_index_of(self, stage: Stage, tensor: te.Tensor) -> ir.Expr:
        """The value of a shared stage, whose elements are read at the index of `stage`."""
        inner = tensor.stage
        assert isinstance(inner, Stage)
        places = {axis_name(a): ir.Var(axis_name(b)) for a, b in zip(inner.axes, stage.axes, strict=False)}
        return ir.substitute(self.value(inner), places)

    @property
    def read_several_times(self) -> frozenset[str]:
        """The results of steps that several operands of steps read."""
        reads = Counter(read.name for step in self.steps for read in step.reads.values() if isinstance(read, FromStep))
        return frozenset(name for name, count in reads.items() if count > 1)

    # -- expressions

    def value(self, stage: Stage) -> ir.Expr:
        """The value of a stage, with the stages that are read once in place of their loads."""
        return self._inlined(stage.value.expr, {tensor.name: tensor for tensor in stage.reads})

    def _inlined(self, expr: ir.Expr, reads: Mapping[str, te.Tensor]) -> ir.Expr:
        if isinstance(expr, ir.Load) and not is_table(expr):
            return self._loaded(expr, reads[expr.buffer])
        mapped = ir.map_operands(expr, lambda operand: self._inlined(operand, reads))
        return self._loaded(mapped, reads[mapped.buffer]) if isinstance(mapped, ir.Load) else mapped

    def _loaded(self, load: ir.Load, tensor: te.Tensor) -> ir.Expr:
        if not is_step(tensor):
            self.tensors[tensor.name] = tensor
            return load
        stage = tensor.stage
        assert isinstance(stage, Stage)
        if tensor.name in self.shared or tensor is self.sums:
            return load
        return ir.substitute(self.value(stage), dict(zip(map(axis_name, stage.axes), load.indices, strict=True)))

    # -- steps

    def append(self, expr: ir.Expr, name: str) -> None:
        """Append the steps of `expr`, the last of them called `name`.

        Raises:
            MapError: some part of it is not an operation of an intrinsic.
        """
        cover = self._cover(expr)
        if cover is None:
            got = ir.expr_text(self._uncovered(expr))
            rule = f"each operation must be one of the vector unit, on numbers up to {MAX_FACTOR}"
            raise MapError(f"{rule}, got {got}")
        overwritten, reads = cover.core.pattern.in_place, dict[str, Read]()
        for operand, part in cover.operands.items():
            if isinstance(part, ir.Load) and operand in cover.core.pattern.tables:
                reads[operand] = self._table(cover.core, operand, part)
            elif isinstance(part, ir.Load) and self._is_of_lanes(cover.core, operand, part):
                reads[operand] = FromLanes(self._lanes(cover.core, operand, part))
            else:
                reads[operand] = self._read(part, f"{name}_{operand}", copied=operand == overwritten)
        self.steps.append(Step(name, cover.core.issued, reads))

    def _read(self, part: ir.Expr, name: str, copied: bool) -> Read:
        """What an operand reads; the steps of a part of the expression come first."""
        match part:
            case ir.Const():
                return part
            case ir.Load(buffer=buffer) if self._is_computed(part):
                if not copied or buffer not in self.kept:
                    return FromStep(buffer)
            case ir.Load():
                return FromOperand(self._operand(part))
        self.append(part, name)
        return FromStep(name)

    def _table(self, core: Core, operand: str, load: ir.Load) -> FromTable:
        table = Table(self.tensors[load.buffer], core.pattern.behaviour.buffers[operand].dims)
        if self.tables.setdefault(load.buffer, table) != table:
            got = f"{list(self.tables[load.buffer].entry)} and {list(table.entry)}"
            raise MapError(f"{load.buffer} must be a table of one intrinsic, got entries of {got}")
        return FromTable(load.buffer)

    def _lanes(self, core: Core, operand: str, load: ir.Load) -> str:
        """The name of an operand of lanes: its tensor's, with a number from the second form on."""
        read = LaneRead(self.tensors[load.buffer], load.indices, core.issued, operand)
        for name, known in self.lanes.items():
            if known == read:
                return name
        same = sum(known.tensor is read.tensor for known in self.lanes.values())
        name = f"{load.buffer}_{same}" if same else load.buffer
        self.lanes[name] = read
        return name

    def _is_sums(self, part: ir.Expr) -> bool:
        """Whether a part is finished sums."""
        return isinstance(part, ir.Load) and self.sums is not None and part.buffer == self.sums.name

    def _is_computed(self, part: ir.Expr) -> bool:
        """Whether a part is finished sums, or the result of a shared stage."""
        return self._is_sums(part) or (isinstance(part, ir.Load) and part.buffer in self.shared)

    def _is_of_lanes(self, core: Core, operand: str, load: ir.Load) -> bool:
        """Whether an operand is loaded once for all results: any of finished sums, and others where
        they lie in the weight buffer.
        """
        if self._is_computed(load) or operand in lookup_tables(core.pattern):
            return False
        return self.sums is not None or core.issued.scopes[operand] == "wgt"

    def _operand(self, load: ir.Load) -> str:
        """The name of a load: its tensor's, with a number from the second form on."""
        if load not in self.operands:
            same = sum(other.buffer == load.buffer for other in self.operands)
            self.operands[load] = f"{load.buffer}_{same}" if same else load.buffer
        return self.operands[load]

    def read_in_order(self, stage: Stage) -> list[tuple[ir.Load, str]]:
        """The operands in the order in which the expression of a stage reads their tensors."""
        order = {tensor.name: place for place, tensor in enumerate(_inputs(stage))}
        return sorted(self.operands.items(), key=lambda entry: order[entry[0].buffer])

    # -- the choice

    def _cover(self, expr: ir.Expr) -> _Cover | None:
        """The intrinsic at the root with the fewest steps in all; None where none computes it."""
        if expr not in self._known:
            covers = [cover for core in self.cores for cover in self._covers(core, expr)]
            self._known[expr] = min(covers, key=lambda cover: cover.steps, default=None)
        return self._known[expr]

    def _covers(self, core: Core, expr: ir.Expr) -> Iterator[_Cover]:
        stage = core.pattern.output.stage
        assert isinstance(stage, Stage)
        binder = Binder(core.pattern, self.tensors, partial(self._stands_for, core))
        for binding in binder.bind(stage.value.expr, expr):
            operands = {name: part for name, part in binding.items() if not isinstance(part, AxisPlace)}
            whole = any(core.pattern.scopes[name] != "wgt" for name in whole_dims(core.pattern))
            if len(operands) < len(binding) or whole:
                continue
            steps = [self._steps(core, operand, part, expr) for operand, part in operands.items()]
            known = [count for count in steps if count is not None]
            if len(known) == len(steps):
                yield _Cover(core, operands, 1 + sum(known))

    def _steps(self, core: Core, operand: str, part: ir.Expr, whole: ir.Expr) -> int | None:
        """The steps before an operand; None if it cannot be one."""
        kept = self._is_computed(part) and isinstance(part, ir.Load) and part.buffer in self.kept
        if isinstance(part, ir.Load | ir.Const) and not (kept and operand == core.pattern.in_place):
            return 0
        cover = None if part is whole else self._cover(part)
        return None if cover is None else cover.steps

    def _stands_for(self, core: Core, operand: str, part: ir.Expr) -> bool:
        """Whether an operand may stand for a part: an immediate for a number, an activation for an
        element, an entry of sums for what other steps compute.
        """
        pattern = core.pattern
        if isinstance(part, ir.Const):
            number = isinstance(part.value, int) and -MAX_FACTOR <= part.value <= MAX_FACTOR
            return number and pattern.allows(operand, part.value)
        if pattern.scopes[operand] == IMMEDIATE or ir.dtype_of(part, self._buffers) != _entry_dtype(core, operand):
            return False
        if not isinstance(part, ir.Load) or self._is_computed(part):
            return pattern.scopes[operand] == "acc"
        if self.sums is not None:
            declared, issued = (one.behaviour.buffers[operand] for one in (pattern, core.issued))
            same = (declared.shape, declared.dtype) == (issued.shape, issued.dtype)
            return same and operand != pattern.in_place and not is_table(part)
        return pattern.scopes[operand] != "acc" and not is_table(part)

    @property
    def _buffers(self) -> dict[str, ir.Buffer]:
        """The tensors of an expression, for its types."""
        tensors = {**self.tensors, **self.shared} | ({} if self.sums is None else {self.sums.name: self.sums})
        return {name: ir.Buffer(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()}

    def _uncovered(self, expr: ir.Expr) -> ir.Expr:
        """The smallest part of `expr` that no intrinsic computes."""
        parts = [e for e in ir.operands(expr) if isinstance(e, ir.Binary | ir.Call | ir.Select | ir.Cast)]
        return next((self._uncovered(part) for part in parts if self._cover(part) is None), expr)


def _inputs(stage: Stage) -> list[te.Tensor]:
    """The tensors below a stage that are not steps, in the order in which they are read."""
    result: list[te.Tensor] = []
    for tensor in stage.reads:
        inner = tensor.stage
        result += _inputs(inner) if is_step(tensor) and isinstance(inner, Stage) else [tensor]
    return list(te.expr.merge_unique(tuple(result)))


def _entry_dtype(core: Core, name: str) -> str:
    return core.pattern.behaviour.buffers[name].dtype
