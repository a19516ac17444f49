"""Whether the generated tests catch planted faults, and name them by the view that is broken.

A fault that fits several extensions can be planted in each. It is caught if one of the programs
shows a disagreement, and the first is of the view that the fault is in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vdla.benchmarks.generated_tests.check import GeneratedTests
from vdla.benchmarks.generated_tests.faults import Fault
from vdla.benchmarks.generated_tests.samples import SAMPLES
from vdla.compiler.extensions import extend
from vdla.hardware.config import Config

MOST_PROGRAMS = 200


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A fault in one place: programs until it was found, and what was found."""

    fault: Fault
    place: str
    programs: int
    found: str
    view: str

    @property
    def caught(self) -> bool:
        """Whether the broken view was named."""
        return self.view == self.fault.view.value


def sample_machine() -> Config:
    """A small machine with the extensions in which faults are planted.

    Entries and vectors of its buffers differ in size, and it computes two rows at a time.
    """
    plain = replace(Config.preset("tiny"), name="tiny_batch", batch=2, block_in=8, inp_kib=2, acc_kib=2)
    return extend(plain, *SAMPLES)


def plant(fault: Fault, seed: int = 0, most: int = MOST_PROGRAMS, places: int | None = None) -> list[PlantedFault]:
    """The outcome of a fault in the first `places` that can have it, by default all."""
    config = sample_machine()
    machines = list(fault.machines(config))[:places]
    return [_planted(fault, GeneratedTests(config, built, fault.planted), seed, most) for built in machines]


def _planted(fault: Fault, tests: GeneratedTests, seed: int, most: int) -> PlantedFault:
    place = next(
        (a.name for a, b in zip(tests.built.extensions, tests.config.extensions, strict=True) if a != b), "all"
    )
    for number in range(most):
        found = tests.check(seed + number)
        if found is not None:
            return PlantedFault(fault, place, number + 1, str(found), found.view.value)
    return PlantedFault(fault, place, most, "", "")
