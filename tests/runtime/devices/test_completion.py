# SPDX-License-Identifier: Apache-2.0
"""The wait for the end of a run: interrupts that come, come early, or are lost; polling; limits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from vdla.runtime.devices import completion as completion_module
from vdla.runtime.devices.completion import Completion, RunLimits, RunTimeoutError, interrupt_wait

LIMITS = RunLimits(5)


class Clock:
    """Time that passes in sleeps only, so that no test depends on how busy this computer is."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    namespace = SimpleNamespace(monotonic=lambda: clock.now, sleep=clock.sleep)
    monkeypatch.setattr(completion_module, "time", namespace)
    return clock


class Machine:
    """Busy for some seconds from now; it counts how often it is asked."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.end, self.polls, self.cycles = clock, clock.now + seconds, 0, 0

    def flag(self, register: str, bit: str) -> bool:
        assert (register, bit) == ("STATUS", "busy")
        self.polls += 1
        return self.clock.now < self.end

    def read_wide(self, name: str) -> int:
        assert name == "CYCLES"
        return self.cycles


@pytest.mark.parametrize("seconds", [0.001, 0.1, 2.0])
def test_polling_makes_a_run_a_quarter_longer_at_most(seconds, clock):
    machine = Machine(clock, seconds)
    Completion(machine, None).wait(LIMITS)
    assert machine.end <= clock.now <= machine.end + 0.25 * seconds
    assert machine.polls < 60 + seconds / 0.01


def test_an_interrupt_that_comes_ends_the_wait(clock):
    machine = Machine(clock, 0.03)

    def interrupt(seconds: float) -> bool:
        clock.sleep(max(0.0, min(seconds, machine.end - clock.now)))
        return clock.now >= machine.end

    completion = Completion(machine, interrupt)
    completion.wait(LIMITS)
    assert completion.interrupt is interrupt and machine.polls < 12
    assert clock.now == machine.end


def test_after_a_lost_interrupt_the_machine_is_polled(clock):
    machine, waits = Machine(clock, 0.03), []

    def lost(seconds: float) -> bool:
        waits.append(seconds)
        clock.sleep(seconds)
        return False

    completion = Completion(machine, lost)
    completion.wait(LIMITS)
    assert clock.now <= machine.end + 0.03, "a lost interrupt at most doubles the time of its run"
    assert completion.interrupt is None and max(waits) <= 0.1
    count = len(waits)
    machine.end = clock.now + 0.01
    completion.wait(LIMITS)
    assert len(waits) == count


def test_an_interrupt_that_comes_early_is_not_waited_for_again(clock):
    machine, waits = Machine(clock, 0.03), []
    completion = Completion(machine, lambda seconds: not waits.append(seconds))
    completion.wait(LIMITS)
    assert len(waits) == 1 and completion.interrupt is not None


def test_limits_hold_with_and_without_an_interrupt(clock):
    for interrupt in (None, lambda seconds: bool(clock.sleep(seconds))):
        with pytest.raises(RunTimeoutError, match=r"^has not ended after 0\.02 s$"):
            Completion(Machine(clock, 60), interrupt).wait(RunLimits(0.02))
        machine = Machine(clock, 60)
        machine.cycles = 8
        with pytest.raises(RunTimeoutError, match=r"^has not ended after 7 cycles$"):
            Completion(machine, interrupt).wait(RunLimits(5, 7))


class Pin:
    """PYNQ's interrupt: a coroutine that waits for an event."""

    def __init__(self, come: bool | None) -> None:
        self.come = come

    async def wait(self) -> None:
        if self.come is None:
            raise RuntimeError("Interrupt invalidated by Overlay change")
        if not self.come:
            await asyncio.Event().wait()


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    asyncio.set_event_loop(None)


@pytest.mark.parametrize(("come", "expected"), [(True, True), (False, False), (None, False)])
def test_a_pin_is_waited_for_with_a_limit(loop, come, expected):
    wait = interrupt_wait(Pin(come))
    assert [wait(0.01), wait(0.01)] == [expected] * 2


def test_there_is_no_interrupt_without_a_pin_or_within_a_loop(loop):
    assert interrupt_wait(None) is None

    async def inside() -> object:
        return interrupt_wait(Pin(True))

    assert loop.run_until_complete(inside()) is None
