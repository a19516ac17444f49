# SPDX-License-Identifier: Apache-2.0
"""A wrong network is traced to layer, instruction and entry, on devices that show their buffers and
on those that do not.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from helpers.faulty_devices import (
    FLIPPED,
    DamagedWeights,
    Elsewhere,
    FaultyDevice,
    FlippingStore,
    Late,
    Transient,
    WrongGemm,
)
from helpers.quantiser import to_qdq

from vdla.cli import main
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode
from vdla.networks.registry import NETWORKS
from vdla.runtime.devices import Device, DeviceError, registry
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.sim import SimDevice
from vdla.runtime.diagnosis.check_programs import test_programs
from vdla.runtime.diagnosis.culprit import Prefixes
from vdla.runtime.diagnosis.network_comparison import NetworkComparison, compare_network
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.network.compile_network import compile_network
from vdla.simulator.verify import verify

test_programs.__test__ = False  # type: ignore[attr-defined]


@cache
def network(preset: str = "pynq_z1") -> tuple[Artifact, dict[str, np.ndarray]]:
    digits = NETWORKS["digits"]
    model = digits.build(**digits.small)
    quantised = to_qdq(model, [digits.inputs(model, seed=seed) for seed in (1, 2)])
    place = {name: "vdla" for name in ("conv1", "conv2")} if preset == "tiny" else {}  # where the CPU is faster
    return compile_network(quantised, preset, place=place).artifact, digits.inputs(model)


def compared(faulty: type[SimDevice], hidden: bool) -> NetworkComparison:
    artifact, inputs = network()
    assert artifact.config is not None
    with SimDevice(artifact.config) as sim, faulty(artifact.config) as other:
        device: Device = Elsewhere(other) if hidden else other
        return compare_network(artifact, inputs, (sim, device))


@pytest.mark.parametrize("hidden", [False, True])
def test_equal_devices(hidden: bool) -> None:
    comparison = compared(SimDevice, hidden)
    assert comparison.equal and str(comparison) == "equal: 6 steps, 7858 cycles"


@pytest.mark.parametrize("hidden", [False, True])
def test_a_wrong_product_is_the_instruction(hidden: bool) -> None:
    comparison = compared(WrongGemm, hidden)
    found = comparison.difference
    assert found is not None and found.culprit is not None and found.program is not None and found.value is not None
    assert (found.number, found.step.name, found.layer) == (2, "region 1", "vdla.QConv conv1")
    assert found.program.columns[found.culprit.instruction, COL["opcode"]] == Opcode.GEMM
    entry = found.culprit.entry
    assert entry is not None and entry.place == "element 9 of out entry 2"
    assert entry.values == (FLIPPED, FLIPPED ^ 4)
    assert found.culprit.store is not None and found.culprit.store[0] > found.culprit.instruction
    assert found.program.columns[found.culprit.store[0], COL["opcode"]] == Opcode.STORE
    name = "board" if hidden else "wrong"
    lines = str(comparison).splitlines()
    assert lines[0].startswith("step 2 (region 1) on vdla: vdla.QConv conv1, ")
    assert lines[1] == (
        f"result: logits_QuantizeLinear_Output.packed[0, 0, 0, 0, 0, 2]: sim -107, {name} -108 (1 of 16 differ)"
    )
    assert lines[2] == "layer: vdla.QConv conv1"
    assert lines[3].startswith("instruction 6: gemm init=1 emit=requant ")
    assert lines[4].startswith("from: block sums(")
    assert lines[5].startswith(f"it leaves element 9 of out entry 2: sim 17, {name} 21 (")
    assert lines[6].startswith("first seen in memory after instruction 7: store dram=scratch ")
    assert lines[7] == f"as scratch[41]: sim 17, {name} 21 (2 differ)"
    assert len(lines) == 8 + hidden


def test_a_wrong_store_is_the_instruction() -> None:
    found = compared(FlippingStore, hidden=False).difference
    assert found is not None and found.culprit is not None and found.program is not None
    assert found.program.columns[found.culprit.instruction, COL["opcode"]] == Opcode.STORE
    assert found.culprit.store == (found.culprit.instruction, found.culprit.entry)
    assert found.culprit.entry is not None and found.culprit.entry.place == "scratch[41]"


def test_a_wrong_store_of_a_board_is_named_as_one_of_two() -> None:
    comparison = compared(FlippingStore, hidden=True)
    lines = str(comparison).splitlines()
    assert lines[6].startswith("first seen in memory after instruction 7: store dram=scratch ")
    assert lines[-1] == "board shows its buffers through stores alone: they may be at fault instead"


@pytest.mark.parametrize("hidden", [False, True])
def test_memory_that_changes_between_steps(hidden: bool) -> None:
    comparison = compared(DamagedWeights, hidden)
    found = comparison.difference
    assert found is not None and found.damage is not None and found.culprit is None
    damage = found.damage
    assert (damage.tensor, damage.offset, damage.got ^ damage.expected, damage.count) == ("s0.weight", 5, 0x80, 1)
    assert str(comparison).splitlines()[-1] == (
        f"memory of {'board' if hidden else 'damaged'}: byte 5 of s0.weight changed between steps: "
        f"{damage.expected:#04x} was written, got {damage.got:#04x} (1 bytes differ)"
    )


def test_a_fault_that_does_not_repeat() -> None:
    comparison = compared(Transient, hidden=True)
    assert comparison.difference is not None and comparison.difference.culprit is None
    assert str(comparison).splitlines()[-1] == (
        "the program alone gives equal results on both: the fault does not repeat"
    )


class Hanging(FaultyDevice):
    """A device on which every program with a STORE hangs."""

    name = "hanging"

    def run(self, program, addresses):  # type: ignore[no-untyped-def]
        if (program.columns[:, COL["opcode"]] == Opcode.STORE).any():
            raise DeviceError("device hanging: the program hangs")
        return super().run(program, addresses)


def test_a_program_that_fails_is_traced_to_its_instruction() -> None:
    comparison = compared(Hanging, hidden=False)
    found = comparison.difference
    assert found is not None and found.culprit is not None and found.program is not None
    assert found.failure == found.culprit.failure == "device hanging: the program hangs"
    assert found.program.columns[found.culprit.instruction, COL["opcode"]] == Opcode.STORE
    assert "with it the program fails: device hanging: the program hangs" in str(comparison).splitlines()


@pytest.mark.rtl
def test_a_network_is_equal_on_the_rtl() -> None:
    artifact, inputs = network("tiny")
    assert artifact.config is not None
    with SimDevice(artifact.config) as sim, RtlDevice(artifact.config) as rtl:
        comparison = compare_network(artifact, inputs, (sim, rtl))
    assert comparison.equal and comparison.cycles[0] == comparison.cycles[1]


@pytest.mark.sampled
@pytest.mark.parametrize("preset", ["tiny", "batch4", "int4", "pynq_z1_512"])
@pytest.mark.parametrize("dump", [False, True])
def test_every_beginning_of_a_program_is_verified(preset: str, dump: bool) -> None:
    for each in test_programs(Config.preset(preset)):
        prefixes, count = Prefixes(each.program), len(each.program)
        for length in {*range(0, count, 1 + count // 8), count}:
            verdict = verify(prefixes.at(length, dump))
            assert verdict.ok, verdict


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    artifact, inputs = network()
    artifact.save(tmp_path / "digits.vdla")
    np.save(tmp_path / "x.npy", next(iter(inputs.values())))
    return tmp_path / "digits.vdla"


def test_the_command_compares_networks(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["compare", "sim", "sim", str(model)]) == 0
    assert capsys.readouterr().out == "equal: 6 steps, 7858 cycles\n"
    monkeypatch.setattr(registry, "DEVICES", {"sim": SimDevice, "wrong": WrongGemm})
    assert main(["compare", "sim", "wrong", str(model), "--input", str(model.with_name("x.npy"))]) == 1
    text = capsys.readouterr().out
    assert "\nlayer: vdla.QConv conv1\ninstruction 6: gemm init=1 " in text


def test_cycles_that_differ_are_a_difference_unless_results_alone_count(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "DEVICES", {"sim": SimDevice, "late": Late, "wrong": WrongGemm})
    text = "equal results: 6 steps; cycles: sim 7858, late 7859\ncycles of region 1: sim 7858, late 7859\n"
    assert main(["compare", "sim", "late", str(model)]) == 1
    assert capsys.readouterr().out == text
    assert main(["compare", "sim", "late", str(model), "--results-only"]) == 0
    assert capsys.readouterr().out == text
    inputs = ["--input", str(model.with_name("x.npy"))]
    assert main(["compare", "sim", "wrong", str(model), *inputs, "--results-only"]) == 1


def test_a_network_without_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits = NETWORKS["digits"]
    compile_network(digits.build(**digits.small), "host").save(tmp_path / "cpu.vdla")
    assert main(["compare", "sim", "sim", str(tmp_path / "cpu.vdla")]) == 2
    assert capsys.readouterr().err == ("vdla: compare: network must have programs, got digits, which runs on the CPU\n")
