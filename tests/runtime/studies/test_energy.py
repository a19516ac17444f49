# SPDX-License-Identifier: Apache-2.0
"""Energy of networks by operator, of verdicts by layer, of the machines of a sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.extension_files import again

import vdla
from vdla.hardware.config import Config
from vdla.networks.digits import digits
from vdla.networks.digits_images import training_digits
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.studies.energy import network_energy, program_energy
from vdla.runtime.studies.explore import explore
from vdla.runtime.studies.layer_energy import cost_energy
from vdla.runtime.studies.layers import layer_of
from vdla.runtime.studies.verdict import evaluate
from vdla.simulator.energy import Action, EnergyError, MachineEvent, activity_of, energy_table
from vdla.simulator.energy.activity import summed
from vdla.simulator.energy.coefficients import NM_45
from vdla.simulator.energy.estimate import STATIC
from vdla.simulator.energy.table import table_of
from vdla.simulator.timing import time_program

TINY = Config.preset("tiny")
DENSE = vdla.definitions.dense(rows=6, in_features=8, out_features=8)
BOARD = table_of(
    {
        "name": "board",
        "source": "measured",
        "add": {"32": 1.0},
        "multiply": {"8": 2.0},
        "memory": {"16": 8.0},
        "dram": [100, 200, 400],
        "error": 1.5,
        "static_mw": 50,
    }
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No outcome of an earlier run."""
    monkeypatch.setattr("vdla.runtime.studies.layer_cycles.user_cache", lambda kind: tmp_path / kind)


@pytest.fixture(scope="module")
def network() -> Artifact:
    """A quantised network of ten operators, eight of them on the accelerator."""
    return vdla.compile(digits(), target="pynq_z1", calibration=training_digits().images[:8]).artifact


def test_operators_sum_to_the_programs(network: Artifact) -> None:
    energy = network_energy(network, "45nm")
    assert energy is not None
    assert energy.total.counts == summed(activity_of(program).total for program in network.programs)
    assert len(energy.operators) == 8
    assert energy.total.total.middle == pytest.approx(sum(row.energy.total.middle for row in energy.operators))
    first, heaviest = energy.operators[0], max(energy.operators, key=lambda row: row.energy.total.middle)
    assert first.op == "vdla.QConv" and heaviest.name == "conv2"
    assert repr(energy).startswith("<NetworkEnergy of digits on pynq_z1: ") and "estimated" in repr(energy)
    document = json.loads(json.dumps(energy.to_dict()))
    assert document["coefficients"] == "45nm" and len(document["operators"]) == 8


def test_static_power_is_of_all_cycles(network: Artifact) -> None:
    energy = network_energy(network, BOARD)
    assert energy is not None and energy.config is not None
    cycles = sum(time_program(program).total_cycles for program in network.programs)
    assert energy.total.parts[STATIC].middle == pytest.approx(1000 * 50 * cycles / energy.config.clock_mhz)


def test_a_network_of_the_cpu_has_no_estimate() -> None:
    assert network_energy(vdla.compile(digits(), target="host").artifact, "7nm") is None


def test_a_program_has_the_estimate_of_its_counts(network: Artifact) -> None:
    program = network.programs[0]
    energy = program_energy(program, "7nm")
    assert energy.counts == activity_of(program).total
    assert STATIC not in energy.parts and STATIC in program_energy(program, BOARD).parts
    with pytest.raises(EnergyError, match="coefficients must be one of 45nm, 7nm or a"):
        program_energy(program, "5nm")


def test_a_verdict_has_each_layer_before_and_with_the_faster_program(tmp_path: Path) -> None:
    path = tmp_path / "again.py"
    path.write_text(again())
    pooling = vdla.definitions.pooling(batch=1, channels=4, size=(4, 4), kernel=2, kind="max")
    verdict = evaluate(path, [layer_of("dense", DENSE), layer_of("pooled", pooling)], TINY, workers=0)
    energy = verdict.energy_by("45nm")
    assert vdla.estimate_energy(verdict, "45nm") == energy
    dense, pooled = energy.layers
    assert verdict.layers[0].after.cost is not None and not verdict.layers[0].helps
    assert dense.before is not None and dense.after is not None
    assert dense.before.counts == dense.after.counts  # the plain program is as fast, and kept
    assert pooled.before is not None
    assert energy.total(after=False).middle == pytest.approx(dense.before.total.middle + pooled.before.total.middle)
    assert "estimated" in repr(energy)
    assert json.loads(json.dumps(energy.to_dict()))["layers"][1]["layer"] == "pooled"


def test_steps_of_the_extension_have_the_price_of_their_operations(tmp_path: Path) -> None:
    path = tmp_path / "again.py"
    path.write_text(again())
    verdict = evaluate(path, [layer_of("dense", DENSE)], TINY, workers=0)
    cost = verdict.layers[0].after.cost
    assert cost is not None
    steps = [count for part, action, *_, count in cost.events if (part, action) == ("again", Action.STEP.value)]
    assert steps == [6 * 2 * 2]  # rows, blocks of inputs and of outputs
    energy = cost_energy(cost, verdict.after, energy_table("45nm"))
    assert energy is not None
    lanes, inputs = TINY.batch * TINY.block_out, TINY.block_in
    operations = {event: count for event, count in energy.counts.items() if event.part == "again"}
    tree = 16 + (inputs - 1).bit_length()
    assert operations == {
        MachineEvent("again", Action.STEP): 24,
        MachineEvent("again", Action.MULTIPLY, 8, 8): 24 * lanes * inputs,
        MachineEvent("again", Action.ADD, tree): 24 * lanes * (inputs - 1),
    }
    own = [NM_45.picojoules(event, TINY) for event in operations if event.action is not Action.STEP]
    counts = [count for event, count in operations.items() if event.action is not Action.STEP]
    assert energy.parts["again"].middle == pytest.approx(
        sum(price[1] * count for price, count in zip(own, counts, strict=True) if price is not None)
    )
    assert [str(event) for event in energy.unpriced if event.part == "again"] == ["again step"]


def test_outcomes_kept_in_files_have_the_same_counts(tmp_path: Path) -> None:
    path = tmp_path / "again.py"
    path.write_text(again())
    first, second = (evaluate(path, [layer_of("dense", DENSE)], TINY, workers=0) for _ in range(2))
    assert first.layers[0].before == second.layers[0].before


def test_machines_of_a_sweep_have_the_energy_of_a_frame(tmp_path: Path) -> None:
    layers, values = [layer_of("dense", DENSE.output)], {"block_in": [2, 4, 8]}
    found = explore(layers, TINY, values, log=tmp_path / "log.jsonl")
    energy = found.energy_by("45nm")
    assert vdla.estimate_energy(found, "45nm") == energy
    assert sorted(energy.machines) == [1, 2]  # the first cannot be
    for at in (1, 2):
        assert 0 < energy.machines[at].low < energy.machines[at].middle < energy.machines[at].high
    assert energy.to_dict()["machines"]["1"]["estimated_pj"] == energy.machines[1].middle
    (tmp_path / "evaluate").rename(tmp_path / "elsewhere")
    assert found.energy_by(energy_table("45nm")).machines == {}


def test_one_function_takes_all_of_them(network: Artifact) -> None:
    program, model = network.programs[0], vdla.Model(network)
    assert vdla.estimate_energy(program, "7nm") == program_energy(program, "7nm")
    assert vdla.estimate_energy(model, "7nm") == vdla.estimate_energy(network, "7nm") == network_energy(network, "7nm")
    with pytest.raises(EnergyError) as caught:
        vdla.estimate_energy(3, "7nm")  # type: ignore[arg-type]
    text = "estimate_energy: what must be a program, a model, a verdict or an exploration, got int"
    assert str(caught.value) == text
