# SPDX-License-Identifier: Apache-2.0
"""The check of intrinsics: the machine's own pass on every machine, planted faults are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics import dot
from vdla.compiler.codegen.vdla import ComputeFields, LoweringError, fold_compute
from vdla.compiler.codegen.vdla.intrinsics import dma, gemm, requantise, vector
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.nest import TensorizedNest
from vdla.compiler.target import host
from vdla.compiler.tensorize import Intrinsic, IntrinsicError
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand, Source, VectorOp
from vdla.hardware.program import Program
from vdla.runtime.checks import intrinsic_check as check
from vdla.runtime.checks.intrinsic_check import ROUNDS, IntrinsicMismatch, check_intrinsic
from vdla.simulator.simulate import simulate
from vdla.simulator.stats import Result

TINY = Config.preset("tiny")
ENTRY = (TINY.batch, TINY.block_out)

OWN: dict[str, Callable[[Config], Intrinsic]] = {
    "gemm": gemm.gemm,
    "requantise": requantise.requantise,
    "raw": requantise.raw,
    "store": dma.store,
    "store_raw": lambda config: dma.store(config, raw=True),
    "reduction": lambda config: vector.reduction(config, VectorOp.MAX),
    "mac": lambda config: vector.mac(config, Operand.WGT),
    "mac_in_place": lambda config: vector.mac_in_place(config, Operand.SRC),
    "product": lambda config: vector.product(config, Operand.IMM),
    "move": lambda config: vector.move(config, Operand.WGT),
    "clip": lambda config: vector.in_place(config, VectorOp.CLIP, Operand.IMM),
    "subtract": lambda config: vector.in_place(config, VectorOp.SUB, Operand.SRC, Source.ACC),
    "floor_shift": vector.floor_shift,
}


@pytest.mark.sampled
@pytest.mark.parametrize("preset", ["tiny", "batch4", "int4"])
@pytest.mark.parametrize("name", OWN)
def test_the_machine_s_own_intrinsics_compute_their_behaviour(name: str, preset: str) -> None:
    intrinsic = OWN[name](Config.preset(preset))
    found = check_intrinsic(intrinsic, preset)
    cases = 4 if intrinsic.output.stage.reduction is None else 5  # type: ignore[union-attr]
    assert found.programs >= (cases * ROUNDS if preset == "tiny" and name != "requantise" else ROUNDS)
    reasons = ("clip_lo must be", "clip_hi must be", "zero_point must be", "an entry of inp must hold")
    assert all(any(reason in refused for reason in reasons) for refused in found.refused)


# --- planted faults -------------------------------------------------------------------------------

Lower = Callable[[TensorizedNest], Iterator[MacroOp]]


def instruction(op: VectorOp, operand: Operand, source: Source = Source.INP, imm: int = 0) -> Callable[..., Any]:
    return lambda fields: isa.Vector(op, operand, source, imm, **fields)


def clipped_sum(lower: Lower) -> Intrinsic:
    """acc = min(max(old + x, low), high)."""
    x, old = te.placeholder(ENTRY, "int8", "x"), te.placeholder(ENTRY, "int32", "old")
    low, high = te.placeholder((1,), "int32", "low"), te.placeholder((1,), "int32", "high")
    acc = te.compute(ENTRY, lambda b, o: te.clip(old[b, o] + te.cast("int32", x[b, o]), low[0], high[0]), "acc")
    scopes = {"x": "inp", "old": "acc", "acc": "acc", "low": "immediate", "high": "immediate"}
    return Intrinsic(name="clipped_sum", output=acc, scopes=scopes, lower=lower, in_place="old")


def clips(nest: TensorizedNest, first: VectorOp, *bounds: tuple[VectorOp, str]) -> Iterator[MacroOp]:
    yield from fold_compute(nest, ComputeFields("acc", "x"), instruction(first, Operand.SRC))
    for op, bound in bounds:
        imm = int(nest.match.immediates[bound])
        yield from fold_compute(nest, ComputeFields("acc"), instruction(op, Operand.IMM, Source.ACC, imm))


LOW, HIGH = (VectorOp.MAX, "low"), (VectorOp.MIN, "high")


def squared_sum(lower: Lower) -> Intrinsic:
    """acc += x + x, in two passes of a reduction."""
    x, step = te.placeholder(ENTRY, "int8", "x"), te.reduce_axis(1, "step")
    acc = te.compute(
        ENTRY, lambda b, o: te.sum(te.cast("int32", x[b, o]) + te.cast("int32", x[b, o]), axis=step), "acc"
    )
    return Intrinsic(name="double_sum", output=acc, scopes={"x": "inp", "acc": "acc"}, lower=lower)


def two_passes(nest: TensorizedNest, again: TensorizedNest) -> Iterator[MacroOp]:
    for part in (replace(nest, epilogue=None), again):
        yield from fold_compute(part, ComputeFields("acc", "x"), instruction(VectorOp.ADD, Operand.SRC))


def without_the_last_step(nest: TensorizedNest) -> Iterator[MacroOp]:
    loops = tuple(replace(loop, extent=max(1, loop.extent - 1)) for loop in nest.loops)
    yield from gemm.gemm(TINY).lower(replace(nest, loops=loops))


def weights_of_the_first_step(nest: TensorizedNest) -> Iterator[MacroOp]:
    weights = replace(nest.access["wgt"], steps={})
    yield from gemm.gemm(TINY).lower(replace(nest, access={**nest.access, "wgt": weights}))


def every_sum_begins_anew(nest: TensorizedNest) -> Iterator[MacroOp]:
    yield from gemm.gemm(TINY).lower(replace(nest, init=True))


def test_correct_lowerings_pass() -> None:
    assert check_intrinsic(clipped_sum(lambda nest: clips(nest, VectorOp.ADD, LOW, HIGH)), TINY).programs == 12
    correct = squared_sum(lambda nest: two_passes(nest, replace(nest, init=False)))
    assert check_intrinsic(correct, TINY).programs == 5 * ROUNDS


FAULTS = {
    "another operation": clipped_sum(lambda nest: clips(nest, VectorOp.SUB, LOW, HIGH)),
    "bounds in the other order": clipped_sum(lambda nest: clips(nest, VectorOp.ADD, HIGH, LOW)),
    "a bound forgotten": clipped_sum(lambda nest: clips(nest, VectorOp.ADD, LOW)),
    "an init in the second pass": squared_sum(lambda nest: two_passes(nest, nest)),
    "the last step forgotten": replace(gemm.gemm(TINY), lower=without_the_last_step),
    "one weight for all steps": replace(gemm.gemm(TINY), lower=weights_of_the_first_step),
    "an init in every chunk": replace(gemm.gemm(TINY), lower=every_sum_begins_anew),
    "rounding half up": replace(vector.floor_shift(TINY), lower=vector.in_place(TINY, VectorOp.SHR, Operand.IMM).lower),
    "the other operand": replace(vector.product(TINY, Operand.IMM), lower=vector.product(TINY, Operand.SRC).lower),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_lowering_that_computes_something_else_is_found(name: str) -> None:
    with pytest.raises(IntrinsicMismatch):
        check_intrinsic(FAULTS[name], TINY)


@pytest.mark.parametrize("value", [-128, -1, 0, 93])
def test_a_fault_at_one_of_all_values_is_found_with_every_seed(monkeypatch: pytest.MonkeyPatch, value: int) -> None:
    def faulty(program: Program, arrays: Mapping[str, Any]) -> Result:
        result = simulate(program, arrays)
        found = result.outputs["output"]
        found[..., 2] ^= found[..., 2] == value
        return result

    monkeypatch.setattr(check, "simulate", faulty)
    for seed in range(3):
        with pytest.raises(IntrinsicMismatch, match=rf"2\] must be {value} by the behaviour"):
            check_intrinsic(OWN["move"](TINY), TINY, seed=seed)


def test_the_message_has_the_first_difference() -> None:
    with pytest.raises(IntrinsicMismatch) as caught:
        check_intrinsic(FAULTS["an init in the second pass"], TINY)
    assert str(caught.value) == (
        "check_intrinsic double_sum: acc[0, 0, 0] must be 178 by the behaviour, got 89 from the instructions; "
        "4 of 4 elements differ (1 step of 1 term, in one nest)"
    )


def test_instructions_that_are_no_safe_program_are_found() -> None:
    with pytest.raises(IntrinsicMismatch) as caught:
        check_intrinsic(FAULTS["the last step forgotten"], TINY)
    assert str(caught.value) == (
        "check_intrinsic gemm: the instructions must be a safe program, got instruction 4 (VECTOR in compute): acc[3] "
        "must be written before it is read, got nothing (4 steps of 3 terms, in one nest)"
    )


# --- CPUs -----------------------------------------------------------------------------------------


def lane_dot(lower: Callable[[Any], None], requires: tuple[str, ...] = ()) -> Intrinsic:
    """acc[o] += w[o] * x[o], of four lanes of int32."""
    w, x = te.placeholder((4,), "int32", "w"), te.placeholder((4,), "int32", "x")
    step = te.reduce_axis(1, "step")
    acc = te.compute((4,), lambda o: te.sum(w[o] * x[o], axis=step), "acc")
    scopes = dict.fromkeys(("w", "x", "acc"), "memory")
    return Intrinsic(name="lane_dot", output=acc, scopes=scopes, lower=lower, target="cpu", requires=requires)


def product_of_lanes(emit: Any) -> None:
    product = emit.builder.mul(emit.load("w"), emit.load("x"))
    emit.store("acc", emit.builder.add(emit.load("acc"), product))


def difference_of_products(emit: Any) -> None:
    product = emit.builder.mul(emit.load("w"), emit.load("x"))
    emit.store("acc", emit.builder.sub(emit.load("acc"), product))


def test_an_intrinsic_of_a_cpu_is_checked_on_this_one() -> None:
    assert check_intrinsic(lane_dot(product_of_lanes)).programs == 6 * ROUNDS
    with pytest.raises(IntrinsicMismatch, match="check_intrinsic lane_dot: acc"):
        check_intrinsic(lane_dot(difference_of_products))


def test_the_dot_products_of_cpus_compute_their_behaviour() -> None:
    intrinsic = dot.madd(4)
    if not host().has(*intrinsic.requires):
        pytest.skip(f"needs a CPU with {', '.join(intrinsic.requires)}")
    assert check_intrinsic(intrinsic).programs == 6 * ROUNDS


# --- refusals -------------------------------------------------------------------------------------


def refuses(nest: TensorizedNest) -> Iterator[MacroOp]:
    raise LoweringError("never: a nest must be of another machine, got this one")


@pytest.mark.parametrize(
    ("intrinsic", "config", "message"),
    [
        ("gemm", TINY, "check_intrinsic: intrinsic must be an Intrinsic, got str"),
        (gemm.gemm(TINY), None, "check_intrinsic gemm: config must be a Config or the name of one, got None"),
        (
            lane_dot(product_of_lanes),
            TINY.name,
            "check_intrinsic lane_dot: config must be left out for an intrinsic of a CPU, got 'tiny'",
        ),
        (
            lane_dot(product_of_lanes, ("sme9",)),
            None,
            f"check_intrinsic lane_dot: this CPU must have sme9, got {host().cpu}",
        ),
        (
            dma.load(TINY, Buffer.WGT),
            TINY,
            "intrinsic load_wgt: result must be in acc, out or global, got wgt",
        ),
        (
            replace(gemm.gemm(TINY), lower=refuses),
            TINY,
            "check_intrinsic gemm: some steps must be lowered, got none; 1 step of 1 term, in one nest: "
            "never: a nest must be of another machine, got this one",
        ),
    ],
)
def test_what_cannot_be_checked_is_refused(intrinsic: Any, config: Any, message: str) -> None:
    with pytest.raises((IntrinsicError, LoweringError)) as caught:
        check_intrinsic(intrinsic, config)
    assert str(caught.value) == message


@pytest.mark.parametrize("seed", [-1, "x"])
def test_a_seed_is_an_integer_from_0(seed: Any) -> None:
    with pytest.raises(IntrinsicError) as caught:
        check_intrinsic(gemm.gemm(TINY), TINY, seed=seed)
    assert str(caught.value) == f"check_intrinsic gemm: seed must be an integer from 0, got {seed!r}"
