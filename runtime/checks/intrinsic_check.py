# SPDX-License-Identifier: Apache-2.0
"""A check of intrinsics: what the lowered instructions compute is compared with the behaviour.

Small programs apply the intrinsic once and many times, in one nest and in tiles; an intrinsic that
accumulates is also applied to sums begun in an earlier nest. Entries are random, over their whole
range or small. A function of few bits, without a reduction, is applied to all values of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla import AllocationError, LoweringError, compile_function
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import is_float, limits, storage_dtype
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import host
from vdla.compiler.tensorize import CONDITION, IMMEDIATE, Intrinsic, IntrinsicError
from vdla.hardware.config import Config
from vdla.hardware.isa import IsaError
from vdla.hardware.numerics import SHIFT_MAX, pack_scale
from vdla.runtime.checks.all_values import MOST_BITS, all_values, operand_bits
from vdla.runtime.checks.intrinsic_schedule import SCALE, SUMS, stepped_schedule
from vdla.runtime.checks.intrinsic_steps import STEPS, StepCase, SteppedIntrinsic, step_cases
from vdla.simulator.simulate import simulate
from vdla.simulator.verify import VerifyError
from vdla.support.errors import Error
from vdla.support.integers import is_int

ROUNDS = 3
"""Programs of each nest of steps, with entries and immediates of their own."""
_TRIES = 4 * ROUNDS  # a lowering may refuse some immediates
_FLOAT_TOLERANCE = 1e-4
_SPATIAL = ((256,), (64, 4), (64,), (16, 4), (16,), (4,), (1,))  # steps of a program with all values
_MOST_PROGRAMS = 256
_SMALL = 9  # of the order of immediates
_IMMEDIATES = (0, 1, 2, 3, 5, 8, -1, -2, 100, -100)
Array = NDArray[Any]


class IntrinsicMismatch(Error, AssertionError):
    """The instructions of an intrinsic compute something else than its behaviour."""


@dataclass(frozen=True, slots=True)
class IntrinsicCheck:
    """A check that passed: how many programs ran, and why others were refused by the lowering."""

    programs: int
    refused: tuple[str, ...]


def check_intrinsic(intrinsic: Intrinsic, config: Config | str | None = None, *, seed: int = 0) -> IntrinsicCheck:
    """Compares the instructions of an intrinsic with its behaviour.

    An intrinsic of the accelerator needs a machine, a `Config` or the name of one; one of a CPU
    runs on this CPU.

    Raises:
        IntrinsicMismatch: a program computes another value; the message has the first one.
        IntrinsicError, TensorizeError: the declaration cannot be matched with its own behaviour.
        LoweringError: every program is refused by the lowering.
    """
    runner = _runner(intrinsic, config)
    if not is_int(seed) or seed < 0:
        raise IntrinsicError(f"check_intrinsic {intrinsic.name}: seed must be an integer from 0, got {seed!r}")
    cases = enumerate(step_cases(intrinsic))
    checks = [_checked(intrinsic, case, runner, np.random.default_rng([seed, place])) for place, case in cases]
    checks.append(_checked_values(intrinsic, runner, np.random.default_rng(seed)))
    refused = tuple(reason for check in checks for reason in check.refused)
    programs = sum(check.programs for check in checks)
    if not programs:
        raise LoweringError(f"check_intrinsic {intrinsic.name}: some steps must be lowered, got none; {refused[0]}")
    return IntrinsicCheck(programs, refused)


def _checked(intrinsic: Intrinsic, case: StepCase, runner: _Runner, rng: np.random.Generator) -> IntrinsicCheck:
    """The check of one nest of steps."""
    programs, refused = 0, list[str]()
    while programs < ROUNDS and programs + len(refused) < _TRIES:
        immediates = _immediates(intrinsic, rng)
        name = "".join([str(case), *(f", {name} = {value}" for name, value in immediates.items())])
        try:
            plain, run = runner(SteppedIntrinsic(intrinsic, case, immediates))
        except (AllocationError, LoweringError, IsaError) as error:
            refused.append(f"{name}: {error}")
            continue
        arrays = _arrays(plain, rng, small=programs % 2 > 0)
        _require_equal(intrinsic, name, _results(intrinsic, name, run, arrays), interpret(plain, arrays))
        programs += 1
    return IntrinsicCheck(programs, tuple(refused))


# --- all values -----------------------------------------------------------------------------------


def _checked_values(intrinsic: Intrinsic, runner: _Runner, rng: np.random.Generator) -> IntrinsicCheck:
    """The check with all values of the operands, where they have few bits and each step is one of
    them; as many steps in a program as fit.
    """
    one = SteppedIntrinsic(intrinsic, StepCase((1,)), _immediates(intrinsic, rng))
    drawn, scopes = [tensor.name for tensor in one.operands()], intrinsic.scopes.values()
    bits = operand_bits(intrinsic.output, intrinsic.behaviour, drawn)
    if one.stage.reduction is not None or CONDITION in scopes or not drawn or bits > MOST_BITS:
        return IntrinsicCheck(0, ())
    for spatial in _SPATIAL:
        if not 1 << bits <= prod(spatial) * _MOST_PROGRAMS or prod(spatial) > 1 << bits:
            continue
        stepped = SteppedIntrinsic(intrinsic, StepCase(spatial), one.immediates)
        try:
            plain, run = runner(stepped)
        except (AllocationError, LoweringError, IsaError):
            continue
        name = "".join(["all values", *(f", {name} = {value}" for name, value in one.immediates.items())])
        return IntrinsicCheck(_compared_values(stepped, name, plain, run, rng), ())
    return IntrinsicCheck(0, ())


def _compared_values(
    stepped: SteppedIntrinsic, name: str, plain: ir.Function, run: _Run, rng: np.random.Generator
) -> int:
    """How many programs compared all values; none where a program has other inputs than these."""
    intrinsic, spatial, programs = stepped.intrinsic, stepped.case.spatial, 0
    buffers, outputs = plain.buffers, ir.output_names(plain)
    drawn = [tensor.name for tensor in stepped.operands()]
    fixed = {
        name: np.array([value], storage_dtype(intrinsic.behaviour.buffers[name].dtype))
        for name, value in stepped.immediates.items()
    }
    values = all_values(intrinsic.output, intrinsic.behaviour, drawn, fixed, rng)
    while several := list(islice(values, prod(spatial))):
        stacked = {name: _stacked([item.operands[name] for item in several], spatial) for name in drawn}
        emitted = next((stacked[name] for name in drawn if intrinsic.scopes[name] == "out"), None)
        if emitted is not None:
            stacked |= {SUMS: emitted.astype(np.int32), SCALE: _unit_scale(emitted.shape[-1])}
        arrays = {name: stacked.get(name) for name in plain.params if name not in outputs}
        dims = {name: tuple(map(int, buffers[name].dims)) for name in arrays}
        if any(array is None or array.shape != dims[name] for name, array in arrays.items()):
            return 0
        known = {name: array for name, array in arrays.items() if array is not None}
        _require_equal(intrinsic, name, _results(intrinsic, name, run, known), interpret(plain, known))
        programs += 1
    return programs


def _stacked(entries: Sequence[Array], spatial: Sequence[int]) -> Array:
    return np.stack(entries).reshape(*spatial, *entries[0].shape)


def _unit_scale(lanes: int) -> Array:
    """Parameters with which requantisation leaves sums as they are."""
    zeros = np.zeros(lanes, np.int64)
    return pack_scale(zeros, zeros + 1, zeros).view(np.int64)


# --- machines -------------------------------------------------------------------------------------

_Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
_Runner = Callable[[SteppedIntrinsic], tuple[ir.Function, _Run]]
"""From steps to their plain function, and what runs their instructions."""


def _runner(intrinsic: Intrinsic, config: Config | str | None) -> _Runner:
    if not isinstance(intrinsic, Intrinsic):
        raise IntrinsicError(f"check_intrinsic: intrinsic must be an Intrinsic, got {type(intrinsic).__name__}")
    where = f"check_intrinsic {intrinsic.name}"
    if intrinsic.target == "cpu":
        if config is not None:
            raise IntrinsicError(f"{where}: config must be left out for an intrinsic of a CPU, got {config!r}")
        missing = [feature for feature in intrinsic.requires if not host().has(feature)]
        if missing:
            raise IntrinsicError(f"{where}: this CPU must have {', '.join(missing)}, got {host().cpu}")
        return _on_cpu
    machine = Config.preset(config) if isinstance(config, str) else config
    if not isinstance(machine, Config):
        raise IntrinsicError(f"{where}: config must be a Config or the name of one, got {config!r}")
    return partial(_on_machine, machine)


def _on_machine(config: Config, stepped: SteppedIntrinsic) -> tuple[ir.Function, _Run]:
    plain, scheduled = stepped_schedule(config, stepped)
    program = compile_function(config, scheduled.fn)
    return plain.fn, lambda arrays: simulate(program, arrays).outputs


def _on_cpu(stepped: SteppedIntrinsic) -> tuple[ir.Function, _Run]:
    inputs = {t.name: te.placeholder((*stepped.extents(t.name), *t.shape), t.dtype, t.name) for t in stepped.operands()}
    function = te.create_function(list(inputs.values()), [stepped.computed(inputs)], stepped.intrinsic.name)
    scheduled = Schedule(function)
    scheduled.reorder(*stepped.loop_order(scheduled.loops(STEPS)))
    scheduled.tensorize(STEPS, stepped.intrinsic)
    from vdla.runtime.native import build

    kernel = build(scheduled.fn)
    return function, lambda arrays: {STEPS: np.asarray(kernel(**arrays))}


# --- numbers --------------------------------------------------------------------------------------


def _immediates(intrinsic: Intrinsic, rng: np.random.Generator) -> dict[str, int]:
    names = [name for name, scope in intrinsic.scopes.items() if scope == IMMEDIATE]
    return {name: int(rng.choice([n for n in _IMMEDIATES if intrinsic.allows(name, n)])) for name in names}


def _arrays(function: ir.Function, rng: np.random.Generator, small: bool) -> dict[str, Array]:
    """Random inputs of a function."""
    outputs = ir.output_names(function)
    return {name: _entries(function.buffers[name], rng, small) for name in function.params if name not in outputs}


def _entries(buffer: ir.Buffer, rng: np.random.Generator, small: bool) -> Array:
    """Entries over the whole range of their dtype, or small ones, which a clip leaves as they are.

    Elements of int64 are lanes of the scale buffer.
    """
    if is_float(buffer.dtype):
        return rng.standard_normal(buffer.dims).astype(storage_dtype(buffer.dtype))
    if buffer.dtype == "int64":
        bias, mult = rng.integers(-(1 << 31), 1 << 31, buffer.dims), rng.integers(0, 1 << 24, buffer.dims)
        return pack_scale(bias, mult, rng.integers(0, SHIFT_MAX, buffer.dims, endpoint=True)).view(np.int64)
    low, high = (int(limit) for limit in limits(buffer.dtype))
    if small:
        low, high = max(low, -_SMALL), min(high, _SMALL)
    return rng.integers(low, high, buffer.dims, endpoint=True).astype(storage_dtype(buffer.dtype))


# --- results --------------------------------------------------------------------------------------


def _results(intrinsic: Intrinsic, case: str, run: _Run, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    """The results of the instructions."""
    try:
        return run(arrays)
    except VerifyError as error:
        reason = error.verdict.findings[0].message
        raise IntrinsicMismatch(
            f"check_intrinsic {intrinsic.name}: the instructions must be a safe program, got {reason} ({case})"
        ) from None


def _require_equal(intrinsic: Intrinsic, case: str, outputs: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    """IntrinsicMismatch with the first difference, if there is one."""
    for name, right in wanted.items():
        wrong = np.argwhere(_differs(outputs[name], right))
        if len(wrong):
            at = tuple(map(int, wrong[0]))
            raise IntrinsicMismatch(
                f"check_intrinsic {intrinsic.name}: {intrinsic.output.name}{list(at)} must be {right[at]} by the "
                f"behaviour, got {outputs[name][at]} from the instructions; {len(wrong)} of {right.size} elements "
                f"differ ({case})"
            )


def _differs(output: Array, wanted: Array) -> NDArray[np.bool_]:
    """Where elements differ; floats by more than a change of order makes."""
    if np.issubdtype(wanted.dtype, np.floating):
        return ~np.isclose(output, wanted, rtol=_FLOAT_TOLERANCE, atol=_FLOAT_TOLERANCE)
    return np.asarray(output != wanted)
