"""The wait for the end of a run: interrupts that come, come early, or are lost; polling; limits."""

from __future__ import annotations

import asyncio
import time

import pytest

from vdla.runtime.devices.board_interrupt import interrupt_wait
from vdla.runtime.devices.completion import Completion, RunLimits, RunTimeoutError

LIMITS = RunLimits(5)


class Machine:
    """Busy for some seconds from now; it counts how often it is asked."""

    def __init__(self, seconds: float) -> None:
        self.end, self.polls, self.cycles = time.monotonic() + seconds, 0, 0

    def flag(self, register: str, bit: str) -> bool:
        assert (register, bit) == ("STATUS", "busy")
        self.polls += 1
        return time.monotonic() < self.end

    def read_wide(self, name: str) -> int:
        assert name == "CYCLES"
        return self.cycles


def timed(completion: Completion, limits: RunLimits = LIMITS) -> float:
    begin = time.monotonic()
    completion.wait(limits)
    return time.monotonic() - begin


@pytest.mark.parametrize("seconds", [0.001, 0.1])
def test_polling_makes_a_run_a_quarter_longer_at_most(seconds):
    machine = Machine(seconds)
    assert timed(Completion(machine, None)) < 1.3 * seconds + 0.02  # and what a busy host adds
    assert machine.polls < 60


def test_an_interrupt_that_comes_ends_the_wait():
    machine = Machine(0.03)

    def interrupt(seconds: float) -> bool:
        time.sleep(max(0.0, min(seconds, machine.end - time.monotonic())))
        return time.monotonic() >= machine.end

    completion = Completion(machine, interrupt)
    completion.wait(LIMITS)
    assert completion.interrupt is interrupt and machine.polls < 12


def test_after_a_lost_interrupt_the_machine_is_polled():
    machine, waits = Machine(0.03), []

    def lost(seconds: float) -> bool:
        waits.append(seconds)
        time.sleep(seconds)
        return False

    completion = Completion(machine, lost)
    assert timed(completion) < 0.2
    assert completion.interrupt is None and max(waits) <= 0.1
    count = len(waits)
    machine.end = time.monotonic() + 0.01
    completion.wait(LIMITS)
    assert len(waits) == count


def test_an_interrupt_that_comes_early_is_not_waited_for_again():
    machine, waits = Machine(0.03), []
    completion = Completion(machine, lambda seconds: not waits.append(seconds))
    completion.wait(LIMITS)
    assert len(waits) == 1 and completion.interrupt is not None


def test_limits_hold_with_and_without_an_interrupt():
    for interrupt in (None, lambda seconds: bool(time.sleep(seconds))):
        with pytest.raises(RunTimeoutError, match=r"^has not ended after 0\.02 s$"):
            Completion(Machine(60), interrupt).wait(RunLimits(0.02))
        machine = Machine(60)
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
    begin = time.monotonic()
    assert [wait(0.01), wait(0.01)] == [expected] * 2
    assert time.monotonic() - begin < 1


def test_there_is_no_interrupt_without_a_pin_or_within_a_loop(loop):
    assert interrupt_wait(None) is None

    async def inside() -> object:
        return interrupt_wait(Pin(True))

    assert loop.run_until_complete(inside()) is None
