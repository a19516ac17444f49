# SPDX-License-Identifier: Apache-2.0
"""The debugger on networks: what each region is fed, steps and breakpoints over their ends."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.quantiser import to_qdq

import vdla
from vdla.debugger.debugger import Debugger
from vdla.debugger.errors import DebugError
from vdla.hardware.asm.disassembler import row_text
from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.errors import ExecutorError
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import ProgramStep
from vdla.runtime.network.compile_network import compile_network
from vdla.simulator.timing import time_program

PLACE = {"conv1": "vdla", "conv2": "vdla", "conv3": "cpu", "conv4": "vdla"}
"""Two regions, with a layer of the CPU between them."""


@cache
def network(preset: str = "pynq_z1") -> tuple[Model, dict[str, np.ndarray]]:
    digits = NETWORKS["digits"]
    model = digits.build(**digits.small)
    quantised = to_qdq(model, [digits.inputs(model, seed=seed) for seed in (1, 2)])
    return compile_network(quantised, preset, place=PLACE), digits.inputs(model)


@pytest.fixture
def run() -> Debugger:
    return vdla.debug(*network())


@pytest.mark.parametrize("preset", ["pynq_z1", "tiny"])
def test_regions_have_what_the_network_feeds_them_and_gives(preset: str) -> None:
    """Both ends of each region, against the values of a run that is observed step by step."""
    model, inputs = network(preset)
    run, steps = vdla.debug(model, inputs), list[ProgramStep]()

    def check(step: object, values: dict[str, np.ndarray]) -> None:
        if not isinstance(step, ProgramStep):
            return
        steps.append(step)
        run.go_to_region(len(steps))
        assert run.program is model.artifact.programs[step.program]
        for tensor, value in step.tensors.items():
            if value in step.outputs:
                assert not run.value(f"dram.{tensor}").any()
            else:
                assert (run.value(f"dram.{tensor}").reshape(-1) == values[value].reshape(-1)).all()
        run.go_to_cycle(run.total_cycles)
        for tensor, value in step.tensors.items():
            if value in step.outputs:
                assert (run.value(f"dram.{tensor}").reshape(-1) == values[value].reshape(-1)).all()

    model.executor.run(inputs, observe=check)
    assert len(steps) == len(run.runs) == 2
    assert [one.region for one in run.runs] == [step.name for step in steps]


def test_steps_pass_region_ends_both_ways(run: Debugger) -> None:
    places, values = [(run.region, run.cycle, run.instruction)], []
    while (run.region, run.cycle) != (2, run.total_cycles):
        stop = run.step()
        places.append((stop.region, stop.cycle, stop.instruction))
        values.append(run.value("acc"))
    count = sum(len(one.program) for one in run.runs)
    assert len(places) == count + 4  # the start and the end of both
    assert places == sorted(places, key=lambda place: place[:2])
    for place, value in zip(reversed(places), [*reversed(values), None], strict=True):
        assert (run.region, run.cycle, run.instruction) == place
        assert value is None or (run.value("acc") == value).all()
        run.back()
    assert run.back() == vdla.debug(*network()).go_to_cycle(0)


def test_cycles_end_at_the_end_of_a_region_before_they_go_on(run: Debugger) -> None:
    run.step("cycle", 10**9)
    assert (run.region, run.cycle) == (1, run.total_cycles)
    run.step("cycle", 5)
    assert (run.region, run.cycle) == (2, 0)
    run.back("cycle", 5)
    assert (run.region, run.cycle) == (1, run.total_cycles)


def test_a_step_to_a_region_goes_to_its_start(run: Debugger) -> None:
    run.go_to(9)
    assert run.step("region").region == 2
    run.step("instruction", 3)
    assert (run.back("region").region, run.cycle) == (2, 0)
    assert (run.back("region").region, run.cycle) == (1, 0)
    assert run.back("region").cycle == 0
    run.step("region", 9)
    assert (run.region, run.cycle) == (2, run.total_cycles)


def firsts(run: Debugger, region: int) -> dict[str, int]:
    """The instruction of each layer that starts first, by the lines of the plan."""
    artifact = network()[0].artifact
    step = [one for one in artifact.plan.steps if isinstance(one, ProgramStep)][region - 1]
    program, result = artifact.programs[step.program], {}
    owner = np.repeat(np.arange(len(step.lines)), step.lines)
    for k in np.argsort(time_program(program).starts, kind="stable").tolist():
        if program.source_of[k] >= 0:
            result.setdefault(step.placement.operators[owner[program.source_of[k]]].name, k)
    return result


def test_layers_begin_at_their_first_instruction(run: Debugger) -> None:
    wanted = [*firsts(run, 1).items(), *firsts(run, 2).items()]
    assert [name for name, _ in wanted] == ["conv1", "conv2", "pool", "conv4", "add", "average", "logits"]
    seen = []
    while len(seen) < len(wanted):
        stop = run.step("layer")
        if stop.instruction is not None and stop.cycle < run.total_cycles:
            seen.append((run.layer, stop.instruction))
    assert seen == wanted
    for name, instruction in wanted:
        run.go_to_region(1)
        one = run.break_at(f"layer {name}")
        assert run.run().breakpoints == (one.number,) and (run.layer, run.instruction) == (name, instruction)
        run.delete(one.number)


def test_breakpoints_are_of_this_region_another_or_all(run: Debugger) -> None:
    def gemms(region: int) -> list[tuple[int, int]]:
        program, starts = run.runs[region - 1].program, time_program(run.runs[region - 1].program).starts
        chosen = [k for k in range(len(program)) if row_text(program, k).startswith("gemm ")]
        return [(region, k) for k in sorted(chosen, key=lambda k: (starts[k], k))]

    run.go_to_region(2)
    for text, wanted in {
        "gemm": gemms(2), "in 1 gemm": gemms(1), "in all gemm": gemms(1) + gemms(2), "region 2": [(2, None)]
    }.items():  # fmt: skip
        one, seen = run.break_at(text), []
        assert one.text == ("in 2 gemm" if text == "gemm" else text)
        run.go_to_region(1)
        while (stop := run.run()).breakpoints:
            seen.append((stop.region, stop.instruction))
        assert seen == wanted and (run.region, run.cycle) == (2, run.total_cycles)
        back = []
        while (stop := run.reverse()).breakpoints:
            back.append((stop.region, stop.instruction))
        assert back == wanted[::-1] and (run.region, run.cycle) == (1, 0)
        run.delete(one.number)
        run.go_to_region(2)


def test_in_all_regions_means_those_in_which_the_place_exists(run: Debugger) -> None:
    only = next(name for name in names(run, 2) if name not in names(run, 1))
    places = run.break_at(f"in all read dram.{only}").places
    assert places and {region for region, _ in places} == {1}
    with pytest.raises(DebugError, match="debug: a place must be one of"):
        run.break_at("in all read nowhere")


def names(run: Debugger, region: int) -> list[str]:
    return [tensor.name for tensor in run.runs[region - 1].program.tensors]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer conv3", "a layer must be one of conv1, conv2, pool, conv4, add, average, logits, got conv3 "
                        "(did you mean conv4?)"),
        ("layer", "a layer must be one of conv1, conv2, pool, conv4, add, average, logits, got nothing"),
        ("region 3", "a region must be a number from 1 to 2, got 3"),
        ("region", "a region must be a number from 1 to 2, got nothing"),
        ("in 0 gemm", "a region must be a number from 1 to 2, got 0"),
        ("in all", "a breakpoint in must have a region and a place, got all"),
        ("in", "a breakpoint in must have a region and a place, got nothing"),
        ("in 2 gem", "a breakpoint must begin with one of load, store, gemm, vector, sync, cycle, line, token, read, "
                     "write, in, region, layer, a number or :LINE, got gem (did you mean gemm?)"),
    ],
)  # fmt: skip
def test_wrong_breakpoints(run: Debugger, text: str, message: str) -> None:
    with pytest.raises(DebugError) as error:
        run.break_at(text)
    assert str(error.value) == f"debug: {message}"
    assert run.breakpoints == ()


def test_wrong_steps(run: Debugger) -> None:
    with pytest.raises(DebugError) as error:
        run.step("layers")
    kinds = "instruction, unit, line, token, cycle, layer, region"
    assert str(error.value) == f"debug: a step must be to one of {kinds}, got layers (did you mean layer?)"
    with pytest.raises(DebugError, match=r"^debug: a region must be a number from 1 to 2, got 0$"):
        run.go_to_region(0)


def test_networks_from_memory_and_file_and_on_another_memory(run: Debugger) -> None:
    model, inputs = network()
    config = model.artifact.config
    assert config is not None
    assert repr(vdla.debug(model.artifact, inputs)) == repr(run)
    assert repr(run) == f"<Debugger of {model.name} in cycle 0 of {run.total_cycles}>"
    slow = vdla.debug(model, inputs, replace(config, dram=replace(config.dram, read_latency=200)))
    assert slow.total_cycles > run.total_cycles


def test_what_cannot_be_debugged() -> None:
    model, inputs = network()
    with pytest.raises(ExecutorError, match="inputs must be image, got none"):
        vdla.debug(model)
    digits = NETWORKS["digits"]
    with pytest.raises(DebugError) as error:
        vdla.debug(compile_network(digits.build(**digits.small), "host"), inputs)
    name = model.name
    assert str(error.value) == f"debug: a network must run programs of the accelerator, got {name} with none"
