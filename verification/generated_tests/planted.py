"""Whether the generated tests catch planted faults, and name them by the view that is broken.

A fault that fits several extensions can be planted in each. It is caught if one of the programs
shows a disagreement, and the first is of the view that the fault is in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

from vdla.compiler.extensions import extend
from vdla.hardware.config import Config
from vdla.verification.generated_tests.check import GeneratedTests
from vdla.verification.generated_tests.faults import Fault
from vdla.verification.generated_tests.rtl_faults import RtlFault
from vdla.verification.generated_tests.samples import SAMPLES
from vdla.verification.generated_tests.views import View
from vdla.verification.programs.device_pair import rtl_pair

MOST_PROGRAMS = 200
_PLAIN = replace(Config.preset("tiny"), name="tiny_batch", batch=2, block_in=8, inp_kib=2, acc_kib=2)


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A fault in one place: programs until it was found, what was found, and by which view."""

    name: str
    expected: tuple[View, ...]
    place: str
    programs: int
    found: str
    view: str

    @property
    def caught(self) -> bool:
        """Whether a broken view was named."""
        return self.view in {view.value for view in self.expected}


def sample_machine(plain: Config = _PLAIN) -> Config:
    """A machine with the extensions in which faults are planted.

    By default a small one, whose entries and vectors differ in size, and which computes two rows at
    a time.
    """
    return extend(plain, *SAMPLES)


def plant(fault: Fault, seed: int = 0, most: int = MOST_PROGRAMS, places: int | None = None) -> list[PlantedFault]:
    """The outcome of a fault in the first `places` that can have it, by default all."""
    config = sample_machine()
    machines = islice(fault.machines(config), places)
    return [_planted(fault, GeneratedTests(config, built, fault.planted), seed, most) for built in machines]


def plant_in_rtl(fault: RtlFault, seed: int = 0, most: int = MOST_PROGRAMS) -> PlantedFault:
    """The outcome of a fault in the RTL, which is built with it."""
    from vdla.runtime.devices.rtl import RtlModel
    from vdla.runtime.devices.rtl_build import BuildOptions, build_library

    config = sample_machine()
    with fault.planted():
        model = RtlModel(build_library(fault.machine(config), BuildOptions(assertions=True)))
    with rtl_pair(config, model) as compare:
        found = _first(GeneratedTests(config, compare=compare), seed, most)
    return PlantedFault(fault.name, (View.RTL,), fault.where, *found)


def _planted(fault: Fault, tests: GeneratedTests, seed: int, most: int) -> PlantedFault:
    places = zip(tests.built.extensions, tests.config.extensions, strict=True)
    place = next((ours.name for ours, declared in places if ours != declared), "all")
    return PlantedFault(fault.name, (fault.view, *fault.also), place, *_first(tests, seed, most))


def _first(tests: GeneratedTests, seed: int, most: int) -> tuple[int, str, str]:
    """Programs until the first disagreement, its text and its view."""
    for number in range(most):
        found = tests.check(seed + number)
        if found is not None:
            return number + 1, str(found), found.view.value
    return most, "", ""
