# SPDX-License-Identifier: Apache-2.0
"""Schedules of several steps of one accelerator intrinsic: its operands are loaded, its results
stored.

A result in the accumulator leaves as raw sums, one in the output buffer as it is. An epilogue
consumes sums of terms in the pass that completes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla import LoweringError
from vdla.compiler.codegen.vdla.intrinsics import dma, requantise, vector
from vdla.compiler.ir import INTEGER_BITS, limits
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.tensorize import GLOBAL, Intrinsic, IntrinsicError
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Source, VectorOp
from vdla.runtime.checks.intrinsic_steps import STEPS, StepOrder, SteppedIntrinsic

SUMS, SCALE = "sums", "scale"
"""The inputs that become results in the output buffer."""
_RESULTS, _OUTPUT = "results", "output"
_TERMS = 3  # of a sum that an epilogue consumes


@dataclass(frozen=True, slots=True)
class _Load:
    """How an input reaches the stage that reads it; the last `grouped` dimensions are one entry of
    the buffer where an entry of the operand is less.
    """

    reader: str
    intrinsic: Intrinsic
    grouped: int = 0


@dataclass(slots=True)
class _Program:
    """The inputs, what loads them, and the intrinsics and scopes of the stages."""

    inputs: list[te.Tensor] = field(default_factory=list)
    loads: dict[str, _Load] = field(default_factory=dict)
    intrinsics: dict[str, Intrinsic] = field(default_factory=dict)
    scopes: dict[str, str] = field(default_factory=dict)


def stepped_schedule(config: Config, stepped: SteppedIntrinsic) -> tuple[Schedule, Schedule]:
    """The steps as a plain loop nest, and scheduled and tensorized for the machine.

    Raises:
        IntrinsicError: the result is in a buffer from which nothing leaves.
        LoweringError: an operand that is less than an entry of its buffer has too many steps.
    """
    intrinsic, program = stepped.intrinsic, _Program()
    tensors = {tensor.name: _operand(config, stepped, tensor, program) for tensor in stepped.operands()}
    output = _carried(config, intrinsic, stepped.computed(tensors), program)
    function = te.create_function(program.inputs, [output], intrinsic.name)
    plain, s = Schedule(function), Schedule(function)
    for stage, scope in program.scopes.items():
        s.set_scope(stage, scope)
    _order(s, stepped, program)
    for stage, chosen in program.intrinsics.items():
        s.tensorize(stage, chosen)
    return plain, s


# --- operands -------------------------------------------------------------------------------------


def _operand(config: Config, stepped: SteppedIntrinsic, tensor: te.Tensor, program: _Program) -> te.Tensor:
    """The tensor of an operand, and how it comes to where the intrinsic reads it."""
    scope, front = stepped.intrinsic.scopes[tensor.name], stepped.extents(tensor.name)
    if scope == "out":
        return _emitted(config, tensor, front, program)
    if scope == "acc" and stepped.intrinsic.epilogue:
        return _sums(config, stepped, tensor, program)
    entry = tuple(map(int, tensor.shape))
    if scope == GLOBAL:
        return _placeholder(program, tensor, (*front, *entry))
    buffer = Buffer[scope.upper()]
    whole, bits = config.entry_bytes[buffer] * 8, prod(entry) * INTEGER_BITS[tensor.dtype]
    if bits >= whole or whole % bits:
        program.loads[tensor.name] = _Load(STEPS, dma.load(config, buffer, entry, dtype=tensor.dtype))
        return _placeholder(program, tensor, (*front, *entry))
    group = whole // bits  # entries of the operand in one of the buffer
    if front[-1] > group:
        rule = f"an entry of {scope} must hold {front[-1]} of {tensor.name}"
        raise LoweringError(f"intrinsic {stepped.intrinsic.name}: {rule}, got {group}")
    load = dma.load(config, buffer, (group, *entry), dtype=tensor.dtype)
    program.loads[tensor.name] = _Load(STEPS, load, grouped=1 + len(entry))
    return _placeholder(program, tensor, (*front[:-1], group, *entry))


def _placeholder(program: _Program, tensor: te.Tensor, shape: tuple[int, ...]) -> te.Tensor:
    made = te.placeholder(shape, tensor.dtype, tensor.name)
    program.inputs.append(made)
    return made


def _sums(config: Config, stepped: SteppedIntrinsic, tensor: te.Tensor, program: _Program) -> te.Tensor:
    """Sums of a few terms, all 32 bits of them, for an epilogue."""
    front = stepped.extents(tensor.name)
    terms = _placeholder(program, te.placeholder((1,), "int32", "terms"), (*front, _TERMS, *map(int, tensor.shape)))
    program.loads["terms"] = _Load(SUMS, dma.load(config, Buffer.ACC))
    program.scopes[SUMS], program.intrinsics[SUMS] = "acc", vector.reduction(config, VectorOp.ADD, Source.ACC)
    term, count = te.reduce_axis(_TERMS, "term"), len(front)
    body = te.with_axes(
        [*stepped.case.loops[:count], "b", "o"],
        lambda *at: te.sum(terms[(*at[:count], term, *at[count:])], axis=term),
    )
    sums: te.Tensor = te.compute((*front, *tensor.shape), body, SUMS)
    return sums


def _emitted(config: Config, tensor: te.Tensor, front: tuple[int, ...], program: _Program) -> te.Tensor:
    """Results in the output buffer: requantised, or raw sums."""
    shape = (*front, *map(int, tensor.shape))
    sums = _placeholder(program, te.placeholder((1,), "int32", SUMS), shape)
    program.loads[SUMS] = _Load(_RESULTS, dma.load(config, Buffer.ACC))
    program.scopes[_RESULTS] = "out"
    if tensor.dtype == "int32":
        program.intrinsics[_RESULTS] = requantise.raw(config)
        raw: te.Tensor = te.compute(shape, lambda *i: sums[i], _RESULTS)
        return raw
    scale = _placeholder(program, te.placeholder((1,), "int64", SCALE), (config.block_out,))
    program.loads[SCALE] = _Load(_RESULTS, dma.load(config, Buffer.SCL))
    program.intrinsics[_RESULTS] = requantise.requantise(config)
    low, high = limits(tensor.dtype)
    results: te.Tensor = te.compute(
        shape,
        lambda *i: requantise.requantisation(sums[i], scale[i[-1]], 0, int(low), int(high), tensor.dtype),
        _RESULTS,
    )
    return results


# --- results --------------------------------------------------------------------------------------


def _carried(config: Config, intrinsic: Intrinsic, steps: te.Tensor, program: _Program) -> te.Tensor:
    """The result in DRAM."""
    scope = intrinsic.scopes[intrinsic.output.name]
    program.intrinsics[STEPS] = intrinsic
    if scope == GLOBAL:
        return steps
    program.scopes[STEPS] = scope
    last = steps
    if scope == "acc":
        last = te.compute(steps.shape, lambda *i: steps[i], _RESULTS)
        program.scopes[_RESULTS], program.intrinsics[_RESULTS] = "out", requantise.raw(config)
    elif scope != "out":
        raise IntrinsicError(f"intrinsic {intrinsic.name}: result must be in acc, out or global, got {scope}")
    program.intrinsics[_OUTPUT] = dma.store(config, steps.dtype == "int32")
    output: te.Tensor = te.compute(last.shape, lambda *i: last[i], _OUTPUT)
    return output


# --- loops ----------------------------------------------------------------------------------------


def _order(s: Schedule, stepped: SteppedIntrinsic, program: _Program) -> None:
    """Order the loops of the steps; load operands and store results in each tile or chunk."""
    case, count = stepped.case, len(stepped.case.spatial)
    first = SUMS if SUMS in program.intrinsics else STEPS  # the stage whose loops are around the others
    if first == STEPS:
        s.reorder(*stepped.loop_order(s.loops(STEPS)))
    else:
        loops = list(s.loops(SUMS))
        s.reorder(*loops[:count], loops[-1], *loops[count:-1])
        s.reverse_compute_at(STEPS, loops[count - 1])
    outer = None if case.order is StepOrder.TOGETHER else s.loops(first)[0]
    for name, load in program.loads.items():
        stage = s.cache_read(load.reader, name, load.intrinsic.scopes["chip"])
        program.intrinsics[stage] = load.intrinsic
        if outer is not None and _moves(stepped, name) and load.reader == first:
            s.compute_at(stage, outer)
        if name in stepped.intrinsic.tables:
            _load_whole(s, stage, stepped, name)
        if load.grouped:
            s.full_extent(stage, _axes(s, stage)[-load.grouped])
    if case.order is StepOrder.TILES and outer is not None:
        for stage in (_RESULTS, _OUTPUT):
            made_before = stage == _RESULTS and SUMS in program.loads  # what a STORE reads
            if stage in program.intrinsics and not made_before:
                s.reverse_compute_at(stage, outer)


def _load_whole(s: Schedule, stage: str, stepped: SteppedIntrinsic, name: str) -> None:
    """Load all of a table, even where constant immediates select a single element."""
    try:
        s.full_extent(stage, *_axes(s, stage)[-len(stepped.intrinsic.behaviour.buffers[name].dims) :])
    except ScheduleError as error:
        raise LoweringError(f"intrinsic {stepped.intrinsic.name}: table {name} must depend on data; {error}") from None


def _moves(stepped: SteppedIntrinsic, name: str) -> bool:
    """Whether an operand has other entries in each iteration of the outermost loop."""
    if stepped.case.order is StepOrder.CHUNKS:
        return name != stepped.intrinsic.in_place
    return name not in stepped.case.shared


def _axes(s: Schedule, stage: str) -> list[str]:
    """The axes of a stage's block."""
    block = next(block for block in ir.walk(s.fn.body) if isinstance(block, ir.Block) and block.name == stage)
    return [axis.var for axis in block.axes]
