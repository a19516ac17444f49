# SPDX-License-Identifier: Apache-2.0
"""Unit control against sections 4 to 6 of the timing contract, cycle by cycle."""

from collections import deque
from dataclasses import dataclass

import cocotb
import pytest
from helpers.rtl.rtl_bench import Bench, any_pattern, pattern, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.isa import COUNTERS

IN_FLIGHT = 4
HELD = "memory_latency"
WAITS = {
    "PopPrev": "wait_load_to_compute",
    "PopNext": "wait_store_to_compute",
    "PushPrev": "wait_compute_to_load",
    "PushNext": "wait_compute_to_store",
}


@pytest.mark.rtl
def test_unit_control_passes_its_bench():
    parameters = {name: COUNTERS.index(counter) for name, counter in WAITS.items()}
    simulate("vdla_unit_control", __file__, InFlight=IN_FLIGHT, Held=COUNTERS.index(HELD), **parameters)


@dataclass
class Command:
    """An instruction: its tokens, whether it is a SYNC, its cycles of issue and of work."""

    pops: dict[str, int]
    pushes: dict[str, int]
    sync: bool
    issue: int
    work: int
    started: int = -1
    complete: int = -1


def random_command(rng):
    bits = (rng.random(4) < 0.3).astype(int).tolist()
    issue, work = int(rng.integers(1, 8)), int(rng.integers(1, 30))
    sync = bool(rng.random() < 0.2)
    return Command({"prev": bits[0], "next": bits[1]}, {"prev": bits[2], "next": bits[3]}, sync, issue, work)


class Unit:
    """A model of the contract with an artificial issue stage, compared in every cycle."""

    def __init__(self, bench, rng, count):
        self.bench, self.rng = bench, rng
        self.queue = deque(random_command(rng) for _ in range(count))
        self.count = count
        self.arrives, self.available, self.room = any_pattern(rng), {}, {}
        self.sides = {side: (any_pattern(rng), any_pattern(rng)) for side in ("prev", "next")}
        self.halts = pattern(str(rng.choice(["seldom", "bursts"])), rng) if rng.random() < 0.3 else None
        self.flight = deque()
        self.current = None
        self.last_complete = -1
        self.halt = self.next_halt = False
        self.valid, self.ended = False, 0

    def drive(self):
        bench, t = self.bench, self.bench.time
        self.valid = bool(self.queue) and (self.valid or next(self.arrives))
        head = self.queue[0] if self.queue else None
        bench["cmd_valid_i"] = self.valid
        bits = [head.pops["prev"], head.pops["next"], head.pushes["prev"], head.pushes["next"]] if head else [0] * 4
        bench["cmd_tokens_i"] = sum(bit << index for index, bit in enumerate(bits))
        bench["cmd_sync_i"] = bool(head and head.sync)
        for side, (available, room) in self.sides.items():
            self.available[side], self.room[side] = next(available), next(room)
            bench[f"{side}_available_i"], bench[f"{side}_room_i"] = self.available[side], self.room[side]
        self.halt, self.next_halt = self.next_halt, bool(self.halts and next(self.halts))
        bench["halt_i"] = self.next_halt
        if self.current and t >= self.current.started + self.current.issue:
            self.current = None
        self.allow = self.current is None and len(self.flight) < IN_FLIGHT
        bench["allow_i"] = self.allow
        bench["complete_i"] = any(c.complete == t and not c.sync for c in self.flight)
        self.occupied = self.current is not None
        self.current_class = int(self.rng.integers(3))
        self.waits = bool(self.occupied and self.rng.integers(2))
        self.covered = self.rng.random() < 0.2
        self.covered_class = int(self.rng.integers(3))
        bench["current_i"], bench["current_class_i"] = self.occupied, self.current_class
        bench["current_waits_i"] = self.waits
        bench["covered_i"], bench["covered_class_i"] = self.covered, self.covered_class

    def sample(self):
        bench, t = self.bench, self.bench.time
        assert bench["in_flight_o"] == len(self.flight)
        blocked = self.blocked(t)
        done = bool(self.flight) and self.flight[0].complete <= t
        ends = done and blocked is None and not self.halt
        head = self.queue[0] if self.valid else None
        missing = next((s for s in ("prev", "next") if head and head.pops[s] and not self.available[s]), None)
        starts = bool(head) and missing is None and self.allow and not self.halt
        assert bench["ended_o"] == ends
        assert bench["cmd_take_o"] == starts
        for side in ("prev", "next"):
            assert bench[f"{side}_pop_o"] == (starts and head.pops[side])
            assert bench[f"{side}_push_o"] == (ends and self.flight[0].pushes[side])
        expected, tentative = self.expected_class(head, starts, missing, blocked)
        assert bench["tentative_o"] == tentative
        assert COUNTERS[bench["class_o"]] == expected, (t, expected)
        if ends:
            self.flight.popleft()
            self.ended += 1
        if starts:
            self.start(t)

    def start(self, t):
        head = self.queue.popleft()
        self.valid = False
        head.started = t
        if head.sync:
            head.issue, head.complete = 1, t + 1
        else:  # instructions complete in order, one per cycle
            head.complete = max(t + head.issue + head.work, self.last_complete + 1)
            self.last_complete = head.complete
        self.flight.append(head)
        self.current = head if head.issue > 1 else None

    def blocked(self, t):
        if not self.flight or self.flight[0].complete > t:
            return None
        pushes = self.flight[0].pushes
        return next((side for side in ("prev", "next") if pushes[side] and not self.room[side]), None)

    def expected_class(self, head, starts, missing, blocked):
        """The counter of this cycle; whether it becomes `commands` if a command arrives."""
        tentative = not self.covered and not self.occupied and head is None
        held = WAITS[f"Push{blocked.title()}"] if blocked else HELD
        if self.covered:
            return COUNTERS[self.covered_class], tentative
        if starts:
            return "busy", tentative
        if self.occupied:
            waits = WAITS[f"Push{blocked.title()}"] if blocked else "busy"
            return waits if self.waits else COUNTERS[self.current_class], tentative
        if head is None:
            return held if self.flight else "idle", tentative
        return WAITS[f"Pop{missing.title()}"] if missing else held, tentative


@cocotb.test()
async def starts_and_ends_are_cycle_exact(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(25, dut):
        model = Unit(bench, rng, 40)
        model = Unit(bench, rng, 40)
        bench["halt_i"] = 0
        await bench.reset()
        bench.models = [model]
        for _ in range(20_000):
            await bench.cycle()
            if model.ended == model.count:
                break
        await bench.cycle(5)
        assert model.ended == model.count
        bench.models = []
