# SPDX-License-Identifier: Apache-2.0
"""Chains are verified programs, and equal the sequence of their operators bit for bit."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.chain_cases import ChainCase, chain_case
from helpers.seeds import seeds

from vdla.compiler.codegen.vdla import LoweringError, chain
from vdla.compiler.templates import (
    Chain,
    ChainStep,
    Operator,
    TemplateError,
    conv2d,
    depthwise_conv2d,
    residual_add,
)
from vdla.hardware.config import Config
from vdla.hardware.program import input_tensors
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.sim import SimDevice
from vdla.runtime.diagnosis.comparison import compare
from vdla.runtime.executor.operator_cycles import operator_cycles, operator_of
from vdla.simulator.simulate import simulate
from vdla.simulator.timing import time_program
from vdla.simulator.verify import verify

PYNQ, TINY = Config.preset("pynq_z1"), Config.preset("tiny")
MACHINES = {
    "pynq_z1": PYNQ,
    "tiny": TINY,
    "int4": Config.preset("int4"),
    "batch4": Config.preset("batch4"),
    "batch2": replace(PYNQ, batch=2, axi_bits=128),
    "small": replace(PYNQ, inp_kib=2, wgt_kib=16, acc_kib=4, out_kib=2, scl_kib=1, uop_kib=2),
}


def check(case: ChainCase) -> None:
    outputs = simulate(case.chain.program, case.inputs).outputs
    for tensor, expected in case.expected.items():
        np.testing.assert_array_equal(case.chain.unpack(tensor, outputs), expected)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", seeds(range(6), 2))
def test_random_chains_equal_the_naive_model(machine: str, seed: int) -> None:
    check(chain_case(MACHINES[machine], seed))


@pytest.mark.parametrize("seed", range(2))
def test_a_chain_equals_the_programs_of_its_steps(seed: int) -> None:
    case = chain_case(TINY, seed)
    held = dict(case.inputs)
    for step in case.chain.steps:
        program = step.operator.program
        packed = {tensor.name: held[step.tensor(tensor.name)] for tensor in input_tensors(program)}
        held[step.tensor("output")] = simulate(program, packed).outputs["output"]
    found = simulate(case.chain.program, case.inputs).outputs
    assert found.keys() == case.expected.keys()
    for tensor in found:
        np.testing.assert_array_equal(found[tensor], held[tensor])


def test_a_chain_without_an_order_runs_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "list_schedule", lambda config, parts, ahead: None)
    check(chain_case(TINY, 1))


@pytest.mark.rtl
def test_a_chain_takes_the_same_cycles_and_gives_the_same_results_on_the_rtl() -> None:
    case = chain_case(TINY, 3, steps=4)
    with SimDevice(TINY, 1 << 20) as simulator, RtlDevice(TINY, 1 << 20) as rtl:
        comparison = compare(case.chain.program, case.inputs, (simulator, rtl))
    assert comparison.equal, str(comparison)


def block(config: Config, size: int = 14, channels: int = 64) -> Chain:
    """A residual block: two convolutions, and an addition of the block's input."""
    shape = {"batch": 1, "height": size, "width": size}
    conv = conv2d(config, in_channels=channels, out_channels=channels, kernel=3, pads=1, chained=True, **shape)
    add = residual_add(config, channels=channels, factors=(3, 2), **shape)
    steps = (
        ChainStep("first", conv, {"data": "x", "output": "a"}),
        ChainStep("second", conv, {"data": "a", "output": "b"}),
        ChainStep("add", add, {"data": "b", "other": "x", "output": "y"}),
    )
    return Chain(config, "block", steps, ("y",))


def test_a_residual_block_hides_loads_and_the_addition_under_the_convolutions() -> None:
    """Iterations of the two convolutions and of both passes of the addition, and little else."""
    found, alone = block(PYNQ), sum(time_program(step.operator.program).total_cycles for step in block(PYNQ).steps)
    iterations = 2 * 4 * 4 * 40 * 40 + 2 * 4 * 14 * 14
    cycles = time_program(found.program).total_cycles
    assert cycles < alone
    assert cycles < 1.12 * iterations


def test_a_depthwise_convolution_leaves_room_for_the_loads_of_the_convolution_behind_it() -> None:
    """Its windows, with a stride of 2, would fill the input buffer."""
    shape = {"batch": 1, "height": 56, "width": 56}
    small = {"batch": 1, "height": 28, "width": 28, "in_channels": 96, "out_channels": 32, "kernel": 1}
    depthwise = depthwise_conv2d(PYNQ, channels=96, kernel=3, strides=2, pads=1, chained=True, **shape)
    behind = conv2d(PYNQ, packing="channels", chained=True, **small)
    steps = [
        ChainStep("a", depthwise, {"data": "x", "output": "z"}),
        ChainStep("b", behind, {"data": "z", "output": "y"}),
    ]
    iterations = 6 * 28 * 28 * (9 + 2)
    assert time_program(Chain(PYNQ, "pair", steps, ("y",)).program).total_cycles < 1.1 * iterations


def test_tensors_have_the_roles_of_a_chain() -> None:
    roles = {tensor.name: tensor.role for tensor in block(TINY, 4, 4).program.tensors}
    weights = [f"{step}.{name}" for step in ("first", "second") for name in ("weight", "scale")]
    assert roles == {
        "x": "input", "scratch": "scratch", "y": "output", "add.scale": "weight", "uops": "constant",
        **dict.fromkeys(weights, "weight"),
    }  # fmt: skip


def test_intermediate_tensors_share_the_memory_of_two() -> None:
    conv = conv2d(TINY, batch=1, height=32, width=32, in_channels=4, out_channels=4, kernel=3, pads=1, chained=True)
    steps = [ChainStep(f"s{i}", conv, {"data": f"t{i}", "output": f"t{i + 1}"}) for i in range(6)]
    program = Chain(TINY, "long", steps, ("t6",)).program
    (scratch,) = (tensor for tensor in program.tensors if tensor.role == "scratch")
    assert scratch.nbytes == 2 * 4096
    verify(program).raise_if_bad()


def test_scratch_takes_a_name_that_is_free() -> None:
    conv = operator()
    names = ("x", "scratch", "scratch_", "y")
    steps = [ChainStep(f"s{i}", conv, {"data": names[i], "output": names[i + 1]}) for i in range(3)]
    roles = {tensor.name: tensor.role for tensor in Chain(TINY, "named", steps, ("scratch", "y")).program.tensors}
    assert (roles["scratch"], roles["scratch_"]) == ("output", "scratch")


def test_the_steps_of_instructions_cover_the_chain() -> None:
    found = block(TINY, 4, 4)
    assert set(operator_of(found.program, found.lines).tolist()) >= {0, 1, 2}
    stats = time_program(found.program)
    first, second, add = operator_cycles(found.program, stats, found.lines)
    assert first.cycles + second.cycles + add.cycles == stats.total_cycles
    assert first.cycles > add.cycles > 2 * 16
    assert first.macs + second.macs == stats.macs
    assert add.macs == 0
    assert repr(found) == "<Chain block for tiny: 3 steps>"
    assert found.macs == 2 * 16 * 9 * 16 + 2 * 64


@cache
def operator(config: Config = TINY, channels: int = 4) -> Operator:
    """A product of channels, made once for all chains."""
    return conv2d(config, batch=1, height=4, width=4, in_channels=channels, out_channels=4, kernel=1)


WRONG = {
    "links must be at least one, got none": ([], ()),
    "outputs must be of y, got z": ([ChainStep("a", operator(), {"data": "x", "output": "y"})], ("z",)),
    "tensor y must be read or an output, got neither": (
        [ChainStep("a", operator(), {"output": "y"}), ChainStep("b", operator(), {"output": "z"})],
        ("z",),
    ),
    "tensor y must be written by one link, got links 0 and 1": (
        [ChainStep("a", operator(), {"output": "y"}), ChainStep("b", operator(), {"output": "y"})],
        ("y",),
    ),
    "tensor y must be written before link 0 reads it, got link 1 as its writer": (
        [ChainStep("a", operator(), {"data": "y", "output": "z"}), ChainStep("b", operator(), {"output": "y"})],
        ("z",),
    ),
    "tensor y must have the same elements in every link, got int8[1, 1, 4, 4, 1, 4] and int8[1, 2, 4, 4, 1, 4]": (
        [
            ChainStep("a", operator(), {"output": "y"}),
            ChainStep("b", operator(channels=8), {"data": "y", "output": "z"}),
        ],
        ("z",),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_chains_are_refused(message: str) -> None:
    steps, outputs = WRONG[message]
    with pytest.raises(LoweringError, match=re.escape(message) + "$"):
        _ = Chain(TINY, "wrong", steps, outputs).program


def pair(*outputs: str, channels: int = 8) -> list[ChainStep]:
    """Two steps, whose results `a` and `b` a third one reads as one tensor."""
    steps = [ChainStep(f"make_{name}", operator(), {"data": "x", "output": name}) for name in outputs]
    return [*steps, ChainStep("read", operator(channels=channels), {"data": "ab", "output": "y"})]


@pytest.mark.parametrize("in_order", [False, True])
def test_a_step_reads_the_results_of_two_as_one(in_order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if in_order:
        monkeypatch.setattr(chain, "list_schedule", lambda config, parts, ahead: None)
    found = Chain(TINY, "joined", pair("a", "b"), ("y",), {"ab": ("a", "b")})
    assert {t.name: t.role for t in found.program.tensors if t.name in ("a", "b", "ab", "y")} == {
        "ab": "scratch",
        "y": "output",
    }
    verify(found.program).raise_if_bad()
    rng = np.random.default_rng(0)
    x, *weights = rng.integers(-3, 4, (1, 4, 4, 4)), *(rng.integers(-3, 4, (4, n, 1, 1)) for n in (4, 4, 8))
    arrays = found.pack_input("x", x)
    for step, weight in zip(found.steps, weights, strict=True):
        arrays |= found.pack_constants(step.name, weight, multiplier=0.25)

    def layer(image: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(np.einsum("nchw,oc->nohw", image, weight[:, :, 0, 0]) / 4), -128, 127)

    both = np.concatenate([layer(x, weight) for weight in weights[:2]], axis=1)
    result = found.unpack("y", simulate(found.program, arrays).outputs)
    np.testing.assert_array_equal(result, layer(both, weights[2]))


WRONG_WHOLES = {
    "part z must be written or a whole before ab, got neither": (pair("a", "b"), ("y", "b"), {"ab": ("a", "z")}),
    "part a must be in one whole, got ab and c": (pair("a", "b"), ("y", "c"), {"ab": ("a", "b"), "c": ("a",)}),
    "outputs must be whole tensors, got the part a": (pair("a", "b"), ("y", "a"), {"ab": ("a", "b")}),
    "tensor ab must have the bytes of its parts, 128, got 192": (
        pair("a", "b", channels=12),
        ("y",),
        {"ab": ("a", "b")},
    ),
    "tensor ab must be written before link 0 reads it, got link 2 as its writer": (
        [*pair("a", "b")[::-1]],
        ("y",),
        {"ab": ("a", "b")},
    ),
}


@pytest.mark.parametrize("message", WRONG_WHOLES)
def test_wrong_wholes_are_refused(message: str) -> None:
    steps, outputs, joined = WRONG_WHOLES[message]
    with pytest.raises(LoweringError, match=re.escape(message) + "$"):
        _ = Chain(TINY, "wrong", steps, outputs, joined).program


def test_wrong_steps_are_refused() -> None:
    found = block(TINY, 4, 4)
    for wrong, message in (
        (lambda: Chain(TINY, "c", [ChainStep("a", operator())] * 2, ()), "c: names of steps must differ, got a twice"),
        (lambda: Chain(PYNQ, "c", [ChainStep("a", operator())], ()), "c: step a must be for pynq_z1, got tiny"),
        (lambda: found.step("third"), "block: step must be one of first, second, add, got third"),
        (lambda: found.pack_input("y", np.zeros(1)), "block: input must be activations of a step, got y"),
        (lambda: found.unpack("a", {}), "block: output must be one of y, got a"),
    ):
        with pytest.raises(TemplateError, match=f"^{re.escape(message)}$"):
            wrong()
