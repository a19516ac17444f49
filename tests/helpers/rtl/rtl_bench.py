# SPDX-License-Identifier: Apache-2.0
"""A module under test: its clock, its pins as integers, and the models around it, in lock-step.

In each cycle every model first drives inputs and then samples all pins as they were just before the
clock edge, so that no model sees register values of the next cycle. A model whose inputs depend
combinationally on outputs also has `settle`, which is called in the middle of the cycle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from cocotb.clock import Clock
from cocotb.handle import Immediate
from cocotb.triggers import FallingEdge, RisingEdge, Timer

from helpers.seeds import long_count
from vdla.hardware.config import Config

PERIOD_NS = 10
FEW = 8  # seeds that are all tried


class Model(Protocol):
    """A model attached to pins."""

    def drive(self) -> None:
        """Sets the inputs of the module for this cycle."""

    def sample(self) -> None:
        """Observes the pins of this cycle."""


class Bench:
    """`bench["push_i"] = 1` drives a pin, `bench["head_o"]` reads one, `await bench.cycle()` is one
    cycle.
    """

    def __init__(self, dut: Any, *models: Model) -> None:
        self.dut = dut
        self.models = list(models)
        self.time = 0
        self._handles: dict[str, Any] = {}
        self._driven: dict[str, int] = {}
        self._resets = any(handle._name == "rst_ni" for handle in dut)  # pure datapaths have no reset

    def __getitem__(self, name: str) -> int:
        return int(self._handle(name).value)

    def __setitem__(self, name: str, value: int) -> None:
        if self._driven.get(name) != value:
            self._handle(name).value = self._driven[name] = int(value)

    def _handle(self, name: str) -> Any:
        if name not in self._handles:
            self._handles[name] = getattr(self.dut, name)
        return self._handles[name]

    async def start(self, **inputs: int) -> None:
        """Starts the clock and resets the module with these inputs; all others are 0."""
        # Inputs start at random values too; the reset edge must precede the first clock edge.
        self._handle("clk_i").value = Immediate(0)
        if self._resets:
            self._handle("rst_ni").value = Immediate(1)
            await Timer(PERIOD_NS, "ns")
            self["rst_ni"] = 0
        await Timer(PERIOD_NS, "ns")
        for handle in self.dut:
            if handle._name.endswith("_i") and handle._name != "clk_i":
                self[handle._name] = inputs.get(handle._name, 0)
        Clock(self._handle("clk_i"), PERIOD_NS, "ns").start()
        await self.reset()

    async def reset(self, cycles: int = 2) -> None:
        """Holds reset for some cycles; models do not run."""
        if self._resets:
            self["rst_ni"] = 0
        for _ in range(cycles):
            await RisingEdge(self._handle("clk_i"))
        if self._resets:
            self["rst_ni"] = 1

    async def cycle(self, count: int = 1) -> None:
        """Runs the module and its models for some cycles."""
        edge = RisingEdge(self._handle("clk_i"))
        settling = [model for model in self.models if hasattr(model, "settle")]
        for _ in range(count):
            for model in self.models:
                model.drive()
            if settling:
                await FallingEdge(self._handle("clk_i"))
            for model in settling:
                model.settle()
            await edge
            for model in self.models:
                model.sample()
            self.time += 1

    async def until(self, name: str, value: int = 1, timeout_cycles: int = 10_000) -> None:
        """Runs up to and including the first cycle in which a pin has this value."""
        for _ in range(timeout_cycles):
            await self.cycle()
            if self[name] == value:
                return
        raise TimeoutError(f"{name} must become {value} within {timeout_cycles} cycles, got {self[name]}")


def config() -> Config:
    """The configuration that the module was built for."""
    return Config.load(os.environ["VDLA_TEST_CONFIG"])


def seeds(count: int, dut: Any, first: int = 1) -> Iterator[np.random.Generator]:
    """Random generators, the seed of each printed before use; of many a third, or all."""
    for seed in range(first, first + (count if count <= FEW else long_count(count))):
        dut._log.info("seed %d", seed)
        yield np.random.default_rng(seed)


# --- patterns of idling and back-pressure ---------------------------------------------------------

PATTERNS = ("always", "mostly", "half", "seldom", "alternate", "bursts")


def pattern(name: str, rng: np.random.Generator) -> Iterator[bool]:
    """An endless series: whether to offer, or accept, in each cycle."""
    chance = {"always": 1.0, "mostly": 0.9, "half": 0.5, "seldom": 0.1}.get(name)
    if chance is not None:
        return _random(chance, rng)
    return _alternate() if name == "alternate" else _bursts(rng)


def any_pattern(rng: np.random.Generator) -> Iterator[bool]:
    """A random pattern."""
    return pattern(PATTERNS[rng.integers(len(PATTERNS))], rng)


def _random(chance: float, rng: np.random.Generator) -> Iterator[bool]:
    while True:
        yield from (rng.random(256) < chance).tolist()


def _alternate() -> Iterator[bool]:
    while True:
        yield False
        yield True


def _bursts(rng: np.random.Generator) -> Iterator[bool]:
    while True:
        yield from [True] * int(rng.integers(1, 20))
        yield from [False] * int(rng.integers(1, 40))
