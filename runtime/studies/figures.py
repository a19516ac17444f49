# SPDX-License-Identifier: Apache-2.0
"""The figures of a machine of a sweep by which machines are limited and compared.

A figure that is not known is None: energies without coefficients, resources that the model of areas
does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vdla.hardware.fpga.area import LIMITED
from vdla.hardware.fpga.parts import FpgaPart
from vdla.runtime.studies.explored_machine import ExploredMachine
from vdla.runtime.studies.sweep import ExploreError
from vdla.support.suggest import one_of

_OF_SYNTHESIS = ("lut_memory", "ff")
"""Resources that the model of areas does not have."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a machine, with the heading of its column; `more` of it is better, or less. Of a
    resource a part has some; an energy is estimated.
    """

    title: str
    of: Callable[[ExploredMachine], float | None]
    more: bool = False
    resource: bool = False
    energy: bool = False

    def cost(self, machine: ExploredMachine) -> float:
        """Less is better; of a figure that is not known, the most."""
        value = self.of(machine)
        return float("inf") if value is None else -value if self.more else value


def _usage(resource: str) -> Callable[[ExploredMachine], float | None]:
    def of(machine: ExploredMachine) -> float | None:
        area = machine.area
        if area is None or (resource in _OF_SYNTHESIS and not area.synthesised):
            return None
        return float(getattr(area.usage, resource))

    return of


def _clock(machine: ExploredMachine) -> float | None:
    return None if machine.area is None else machine.area.clock_mhz


def _fps(machine: ExploredMachine) -> float | None:
    return machine.frames_per_second or None


def _latency_ms(machine: ExploredMachine) -> float | None:
    return 1000 / machine.frames_per_second if machine.frames_per_second else None


def _energy_uj(machine: ExploredMachine) -> float | None:
    return None if machine.energy is None else machine.energy.middle / 1e6


def _watts(machine: ExploredMachine) -> float | None:
    energy = _energy_uj(machine)
    return None if energy is None or not machine.frames_per_second else energy * machine.frames_per_second / 1e6


def _fps_per_watt(machine: ExploredMachine) -> float | None:
    energy = _energy_uj(machine)
    return 1e6 / energy if energy else None


def _fps_per(resource: str) -> Callable[[ExploredMachine], float | None]:
    def of(machine: ExploredMachine) -> float | None:
        fps, used = _fps(machine), _usage(resource)(machine)
        return fps / used if fps and used else None

    return of


FIGURES: Mapping[str, Figure] = {
    "fps": Figure("frames/s", _fps, more=True),
    "latency_ms": Figure("ms", _latency_ms),
    "cycles": Figure("cycles", lambda machine: machine.cycles),
    "mhz": Figure("MHz", _clock, more=True),
    **{name: Figure(name, _usage(name), resource=True) for name in LIMITED},
    "fps_per_lut": Figure("fps/LUT", _fps_per("lut"), more=True),
    "fps_per_dsp": Figure("fps/DSP", _fps_per("dsp"), more=True),
    "uj": Figure("est. uJ", _energy_uj, energy=True),
    "watts": Figure("est. W", _watts, energy=True),
    "fps_per_watt": Figure("est. fps/W", _fps_per_watt, more=True, energy=True),
}
"""By the names of limits and objectives."""

_SHARES = 1.0  # the largest bound of a resource that is a share of the part


@dataclass(frozen=True, slots=True)
class Limit:
    """A figure must be at most the bound, or at least it."""

    name: str
    bound: float
    most: bool

    def against(self, machine: ExploredMachine, final: bool) -> str:
        """Why a machine is outside; empty if it is not, or if the figure is not known yet. The area
        and the clock of a machine are `final`, or a synthesis will tell them.
        """
        figure = FIGURES[self.name]
        value = figure.of(machine)
        if not final and (value is None or figure is FIGURES["mhz"]):
            return ""
        if value is None and figure.resource:
            return f"{self}, which only a synthesised machine tells (vdla area)"
        outside = value is not None and (value > self.bound if self.most else value < self.bound)
        return str(self) if outside else ""

    def __str__(self) -> str:
        return f"{self.name} must be at {'most' if self.most else 'least'} {self.bound:,.10g}"


def limits_of(most: Mapping[str, float], least: Mapping[str, float], part: FpgaPart, priced: bool) -> list[Limit]:
    """The limits; a bound of a resource of at most 1 is a share of the part.

    Raises:
        ExploreError: an unknown figure, a bound below 0, or an energy without coefficients.
    """
    limits = []
    for bounds, is_most in ((most, True), (least, False)):
        for name, bound in bounds.items():
            figure = _known("limit", name, priced)
            if not 0 <= bound < float("inf"):
                raise ExploreError(f"explore: limit of {name} must be a number from 0, got {bound}")
            share = figure.resource and bound <= _SHARES
            limits.append(Limit(name, bound * getattr(part, name) if share else bound, is_most))
    return limits


def check_objectives(names: Sequence[str], priced: bool) -> None:
    """ExploreError for none, for an unknown figure, or for an energy without coefficients."""
    if not names:
        raise ExploreError("explore: objectives must be at least one, got none")
    for name in names:
        _known("objective", name, priced)


def _known(what: str, name: str, priced: bool) -> Figure:
    if name not in FIGURES:
        raise ExploreError(f"explore: {what} must be {one_of(name, FIGURES)}")
    if FIGURES[name].energy and not priced:
        raise ExploreError(f"explore: {what} {name} must have coefficients of energy (--energy), got none")
    return FIGURES[name]
