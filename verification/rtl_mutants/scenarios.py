# SPDX-License-Identifier: Apache-2.0
"""What a model of the machine must pass: random programs first, then its registers, then stops.

The first of them find most defects in a tenth of the time of all, so the tests of the modules come
before the others. A scenario raises MachineFault, or the DeviceError of an assertion, a broken rule
or a hang. None of them knows the RTL: what they expect comes from the simulator, the register table
and the documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from vdla.hardware.config import Config
from vdla.runtime.devices.device import DeviceError
from vdla.runtime.devices.rtl import RtlModel
from vdla.verification.programs.cases import ProgramCase
from vdla.verification.programs.device_pair import rtl_pair
from vdla.verification.programs.directed_programs import directed_cases
from vdla.verification.programs.extreme_programs import extreme_programs
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_machines import DRAMS
from vdla.verification.rtl_mutants.control_port import control_port_scenarios
from vdla.verification.rtl_mutants.rig import Check, MachineFault
from vdla.verification.rtl_mutants.stops import stop_scenarios

FIRST = (40, 60)
"""The lengths of the programs that every defect meets first."""
REST = (90, 25, 1, 60, 90)


class Round(Enum):
    """Which scenarios a defect meets: those that find most in least time, or the others."""

    FIRST = "first"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named check of a model."""

    name: str
    check: Check


def scenarios(chosen: Round) -> Iterator[Scenario]:
    """The scenarios of a round."""
    return _first() if chosen is Round.FIRST else _second()


def _first() -> Iterator[Scenario]:
    yield Scenario("programs", lambda config, model, seed: _programs(config, model, seed, FIRST))
    yield from (Scenario(name, check) for name, check in control_port_scenarios())


def _second() -> Iterator[Scenario]:
    for number in range(len(DRAMS)):
        yield Scenario(f"programs, memory {number}", _on_memory(dram_number=number))
    yield Scenario("extremes", _extremes)
    yield Scenario("directed programs", _directed)
    yield from (Scenario(name, check) for name, check in stop_scenarios())


def first_finding(config: Config, model: RtlModel | None, seed: int, chosen: Round, name: str = "") -> str:
    """What the first scenario of a round says that finds a defect; empty if none does.

    With the name of a scenario, that one alone is tried.
    """
    every = list(scenarios(chosen))
    for scenario in [scenario for scenario in every if scenario.name == name] or every:
        try:
            scenario.check(config, model, seed)
        except (MachineFault, DeviceError) as error:
            return f"{scenario.name}: {error}"
    return ""


def _on_memory(dram_number: int) -> Check:
    def check(config: Config, model: RtlModel | None, seed: int) -> None:
        on_memory = replace(config, dram=DRAMS[dram_number])
        _programs(on_memory, model, seed + 1000 * (dram_number + 1), REST)

    return check


def _programs(config: Config, model: RtlModel | None, seed: int, counts: Sequence[int]) -> None:
    """Random programs: times, counters, memory and buffers equal the simulator's."""
    starts = [number % 2 == 0 for number in range(len(counts))]
    numbers = enumerate(zip(counts, starts, strict=True), seed)
    _compare(config, model, [ProgramCase(config, at, count, random_start=start) for at, (count, start) in numbers])


def _extremes(config: Config, model: RtlModel | None, seed: int) -> None:
    """Transfers of the greatest extents."""
    _compare(config, model, [ProgramCase(config, seed, program=program) for program in extreme_programs(config, seed)])


def _directed(config: Config, model: RtlModel | None, seed: int) -> None:
    """Both ends of every field."""
    _compare(config, model, directed_cases(config, seed))


def _compare(config: Config, model: RtlModel | None, cases: Iterable[ProgramCase]) -> None:
    with rtl_pair(config, model) as compare:
        for case in cases:
            program = case.made()
            difference = compare(program, random_arrays(program, case.seed), case.conditions(program)).difference
            if difference:
                raise MachineFault(difference.splitlines()[0])
