# SPDX-License-Identifier: Apache-2.0
"""The control's state machine with a core of a few cycles; resets in every cycle of a run."""

import cocotb
import pytest
from helpers.rtl.rtl_bench import Bench, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.generate.registers import ErrorCode

START_DELAY = 3
RUN_CYCLES = 20
RESET_CYCLES = 4
LEAST_STOP = 16  # cycles
LONGEST = 80  # cycles from a start to the end of a run
ERRORS = {  # the pin that reports an error, and its value
    ErrorCode.INSTRUCTION: ("invalid_i", 1),
    ErrorCode.FETCH: ("fetch_error_i", 1),
    ErrorCode.LOAD: ("unit_error_i", 1),
    ErrorCode.COMPUTE: ("unit_error_i", 2),
    ErrorCode.STORE: ("unit_error_i", 4),
}


@pytest.mark.rtl
def test_control_passes_its_bench():
    simulate("vdla_control", __file__, registers=("cycles_q", "started_q", "ended_q"))


class Core:
    """A core that finishes after some cycles, unless it is halted before."""

    def __init__(self, bench, cycles):
        self.bench, self.cycles = bench, cycles
        self.zero = None  # when cycle 0 is
        self.counted = self.over = self.cleared = 0
        self.busy_for = 0  # cycles for which AXI is not quiet
        self.busy_until = None

    def drive(self):
        bench, t = self.bench, self.bench.time
        self.in_run = self.zero is not None and t >= self.zero
        bench["finished_i"] = self.in_run and t >= self.zero + self.cycles
        self.busy_until = t if self.busy_for == 1 else self.busy_until
        self.busy_for = max(0, self.busy_for - 1)
        bench["quiet_i"] = not self.busy_for

    def sample(self):
        bench = self.bench
        if bench["fetch_start_o"]:
            self.zero = bench.time + START_DELAY
        if bench["clear_o"]:
            self.zero = None
        self.counted += bench["run_o"]
        self.cleared += bench["clear_o"]
        self.over += bench["over_o"]


async def run(bench, core, reset_at=None, error_at=None, busy_for=0, error=ErrorCode.LOAD):
    """Starts a run; drives a reset or an error in a cycle counted from the start. Ends when idle.

    AXI is not quiet for some cycles from the error on.
    """
    bench.models = [core]
    for cycle in range(10 * LONGEST):
        bench["start_i"] = cycle == 0
        bench["reset_i"] = cycle == reset_at
        pin, value = ERRORS[error]
        bench[pin] = value if cycle == error_at else 0
        core.busy_for = busy_for if cycle == error_at else core.busy_for
        await bench.cycle()
        assert not (bench["reset_i"] and bench["over_o"]), "a run is not over in the cycle of a reset"
        if cycle > max(reset_at or 0, 2) and not bench["busy_o"]:
            break
    else:
        raise TimeoutError("control must become idle")
    bench.models = []


@cocotb.test()
async def a_run_counts_its_cycles(dut):
    bench = Bench(dut)
    await bench.start()
    for cycles in (0, 1, 2, RUN_CYCLES):
        core = Core(bench, cycles)
        await run(bench, core)
        assert (core.counted, core.over, core.cleared) == (cycles, 1, RESET_CYCLES)
        assert (bench["cycles_o"], bench["done_o"], bench["error_o"]) == (cycles, 1, 0)


@cocotb.test()
async def cycles_and_events_carry_into_their_upper_bits(dut):
    """Values that no run reaches in a test are put into the registers while it runs."""
    bench = Bench(dut)
    await bench.start()
    for bits in (16, 24, 31, 32, 40, 47):
        core = Core(bench, RUN_CYCLES)
        bench.models = [core]
        bench["start_i"] = 1
        await bench.cycle()
        bench["start_i"] = 0
        await bench.until("run_o")
        before = (1 << bits) - 2
        events = before & 0xFFFFFFFF
        dut.cycles_q.value, counted = before, core.counted
        dut.started_q.value = dut.ended_q.value = sum(events << 32 * unit for unit in range(3))
        bench["started_i"] = bench["ended_i"] = 7
        await bench.cycle(4)
        bench["started_i"] = bench["ended_i"] = 0
        await bench.until("done_o")
        assert bench["cycles_o"] == before + core.counted - counted
        every = sum((events + 4) % (1 << 32) << 32 * unit for unit in range(3))
        assert (bench["started_o"], bench["ended_o"]) == (every, every)
        bench.models = []
        await bench.cycle(2)


@cocotb.test()
async def a_reset_in_any_cycle_of_a_run_leaves_no_result(dut):
    bench = Bench(dut)
    await bench.start()
    length = None
    for reset_at in range(1, LONGEST):
        core = Core(bench, RUN_CYCLES)
        await run(bench, core, reset_at=reset_at)
        if core.over:  # the run was over before the reset, which cleared it
            length = length or reset_at
        assert core.over == (length is not None)
        assert (bench["done_o"], bench["error_o"], bench["cycles_o"]) == (0, 0, 0)
        core = Core(bench, RUN_CYCLES)
        await run(bench, core)
        assert (core.counted, core.over, bench["done_o"]) == (RUN_CYCLES, 1, 1)
    assert length


@cocotb.test()
async def a_hard_reset_in_any_cycle_of_a_start_withdraws_it(dut):
    bench = Bench(dut)
    await bench.start()
    bench["quiet_i"], bench["finished_i"] = 1, 0
    for cycles in range(LEAST_STOP):
        bench["start_i"] = 1
        await bench.cycle()
        bench["start_i"] = 0
        await bench.cycle(cycles)
        await bench.reset()
        await bench.cycle()
        assert (bench["fetch_start_o"], bench["busy_o"], bench["run_o"]) == (0, 0, 0)


@cocotb.test()
async def an_error_stops_the_run_when_the_memory_is_quiet(dut):
    bench = Bench(dut)
    await bench.start()
    delays = set()
    for rng in seeds(20, dut):
        core = Core(bench, RUN_CYCLES)
        error_at, busy_for = int(rng.integers(14, 13 + RUN_CYCLES)), int(rng.integers(1, 200))
        await run(bench, core, error_at=error_at, busy_for=busy_for)
        assert not core.busy_for, "control waits until the memory is quiet"
        if busy_for >= LEAST_STOP:
            delays.add(bench.time - core.busy_until)
        assert core.over == 1
        assert (bench["done_o"], bench["error_o"]) == (0, ErrorCode.LOAD)
    assert len(delays) == 1, "control waits no longer than that"


@cocotb.test()
async def an_error_names_its_source_and_instruction(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(4, dut):
        for error in ERRORS:
            bench["dispatched_i"] = dispatched = int(rng.integers(1 << 32))
            await run(bench, Core(bench, RUN_CYCLES), error_at=int(rng.integers(14, 13 + RUN_CYCLES)), error=error)
            index = dispatched if error in (ErrorCode.INSTRUCTION, ErrorCode.FETCH) else 0
            assert (bench["done_o"], bench["error_o"], bench["error_index_o"]) == (0, error, index)


@cocotb.test()
async def an_error_comes_before_the_end_of_a_run_or_not_at_all(dut):
    bench = Bench(dut)
    await bench.start()
    results = []
    for error_at in range(START_DELAY, LONGEST):
        await run(bench, Core(bench, RUN_CYCLES), error_at=error_at)
        bench["unit_error_i"] = 1  # while idle
        await bench.cycle()
        bench["unit_error_i"] = 0
        await bench.cycle(3)
        results.append((bench["done_o"], bench["error_o"]))
    assert set(results) == {(0, ErrorCode.LOAD), (1, ErrorCode.NONE)}
