# SPDX-License-Identifier: Apache-2.0
"""The timing of a program: the start and end of every instruction, and the counters of every unit.

`docs/timing-contract.md` is the specification. Timing needs no data, so a program can be timed
again under another DRAM model or other queue depths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.hardware import timing as contract
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, COUNTERS, QUEUES, UNITS, Opcode, Unit, instruction_bytes, isa_of
from vdla.hardware.program import STREAM, Program, place
from vdla.simulator.stats import MachineState, RunStats, macs_of, moved_bytes
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.support.jit import is_compiled
from vdla.simulator.timing import event_loop
from vdla.simulator.timing import layout as at
from vdla.simulator.timing.layout import T_C, T_D, T_E, T_S, UNKNOWN
from vdla.simulator.timing.vector_stalls import vector_stalls
from vdla.simulator.timing.wait_table import KIND_WRITE, POP_QUEUE, F, stream_beats, wait_table
from vdla.support.arrays import Bools, Ints

MAX_CYCLES = 1 << 50


@dataclass(frozen=True, slots=True)
class Timing:
    """Results of the event loop: arrays by instruction, counters by unit in the order of UNITS.

    `times` has the columns TIMES of `layout`.
    """

    total: int
    times: Ints
    waits: Ints
    counters: Ints

    @property
    def dispatches(self) -> Ints:
        """When each instruction was dispatched."""
        return self.times[:, at.T_D]

    @property
    def starts(self) -> Ints:
        """When each instruction started."""
        return self.times[:, at.T_S]

    @property
    def ends(self) -> Ints:
        """When each instruction ended."""
        return self.times[:, at.T_E]


def time_program(
    program: Program,
    config: Config | None = None,
    addresses: dict[str, int] | None = None,
    max_cycles: int = MAX_CYCLES,
) -> RunStats:
    """The cycles of `program` at `addresses` (by default those of `place`) on `config`.

    `config` may differ in DRAM, clock and queue depths from the one the program was compiled for.
    SimulationError where the program hangs or takes more than `max_cycles`.
    """
    device = device_config(program, config)
    places = place(program)[0] if addresses is None else addresses
    linked = program.linked_columns(places)
    stream = _stream_beat(program, places)
    timing = time_columns(device, linked, stream, vector_stalls(program), max_cycles)
    return _stats(device, program, linked, timing)


def attempt_program(program: Program, config: Config | None = None) -> tuple[int, Timing]:
    """How a run of `program` ends, and its timing up to there, as `attempt_columns`: a program that
    hangs is no error.
    """
    places = place(program)[0]
    linked, stream = program.linked_columns(places), _stream_beat(program, places)
    return attempt_columns(device_config(program, config), linked, stream, vector_stalls(program))


def device_config(program: Program, config: Config | None) -> Config:
    """`config`, by default the program's; SimulationError if the program is for another machine."""
    mismatch = None if config is None else program.config.mismatch(config)
    if mismatch is not None:
        raise SimulationError(f"simulate {program.name}: {mismatch}")
    return config or program.config


def _stream_beat(program: Program, places: dict[str, int]) -> int:
    if STREAM not in places:
        raise SimulationError(f"simulate {program.name}: addresses must include {STREAM}, got {', '.join(places)}")
    beat, rest = divmod(places[STREAM], program.config.axi_bytes)
    if rest or beat < 0:
        unit = program.config.axi_bytes
        raise SimulationError(
            f"simulate {program.name}: address of {STREAM} must be a multiple of {unit} from 0, got {places[STREAM]}"
        )
    return beat


def time_columns(
    config: Config, linked: Ints, stream_beat: int, extra: Ints | None = None, max_cycles: int = MAX_CYCLES
) -> Timing:
    """The timing of linked instructions; `extra[k]` is the number of stalls of a VECTOR.

    SimulationError where they hang or take more than `max_cycles`.
    """
    status, timing = attempt_columns(config, linked, stream_beat, extra, max_cycles)
    if status != at.DONE or timing.total > max_cycles:
        cycle, timeout = min(timing.total, max_cycles), status != at.DEADLOCK
        raise SimulationError(hang_text(config, linked, timing.times, cycle, timeout=timeout))
    return timing


def attempt_columns(
    config: Config, linked: Ints, stream_beat: int, extra: Ints | None = None, max_cycles: int = MAX_CYCLES
) -> tuple[int, Timing]:
    """How a run of linked instructions ends (DONE, DEADLOCK or TIMEOUT of `layout`), and its timing
    up to there: what does not happen has the time UNKNOWN, and counters are those of a whole run.
    """
    extra = np.zeros(len(linked), np.int64) if extra is None else extra
    table = wait_table(config, linked, extra)
    times = np.full((len(linked), len(at.TIMES)), at.UNKNOWN, np.int64)
    waits = np.zeros((len(linked), len(COUNTERS)), np.int64)
    fetch = np.zeros(len(COUNTERS), np.int64)
    idle = np.zeros(3, np.int64)
    scratch = _scratch(config, table)
    params = _params(config, stream_beat, max_cycles)
    status, cycles = event_loop.run(table, params, times, waits, fetch, idle, *scratch, POP_QUEUE)
    counters = _counters(linked, waits, fetch, idle)
    return int(status), Timing(int(cycles), times, waits, counters)


def prepare(config: Config) -> None:
    """Compile the event loop, and leave it on disk where it can be: the first run takes seconds."""
    time_columns(config, np.zeros((0, len(isa_of(config).columns)), np.int64), 0)


def is_prepared() -> bool:
    """Whether the event loop is compiled, in this process or on disk."""
    return is_compiled(event_loop.run)


def _scratch(config: Config, table: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """The state, the burst iterators, the last beats of outstanding bursts on both channels; the
    write bursts, and the memory that takes them, where the configuration has a model of it.
    """
    slots = max(config.dram.outstanding_reads, config.dram.outstanding_writes)
    state, requests = np.zeros(at.STATE_SIZE, np.int64), np.zeros((3, at.ITERATOR), np.int64)
    posted = np.zeros((_most_write_bursts(config, table) if config.dram.bus_bytes else 0, at.POSTED_SIZE), np.int64)
    memory = np.zeros(at.BUS_SIZE + at.BANK_SIZE * config.dram.banks, np.int64)
    memory[at.BUS_SIZE + at.BANK_ROW :: at.BANK_SIZE] = -1
    return state, requests, np.full((2, slots), -1, np.int64), posted, memory


def _most_write_bursts(config: Config, table: Ints) -> int:
    """A bound of the write bursts: a run has them by length, and one more at each page and end."""
    stores = table[table[:, F["kind"]] == KIND_WRITE]
    run = stores[:, F["run"]]
    bursts = run // config.burst_beats + run // contract.page_beats(config) + 2
    return int((stores[:, F["y_runs"]] * stores[:, F["z_runs"]] * bursts).sum())


def _counters(linked: Ints, waits: Ints, fetch: Ints, idle: Ints) -> Ints:
    counters = np.zeros((len(UNITS), len(COUNTERS)), np.int64)
    counters[0] = fetch
    for unit in range(3):
        counters[unit + 1] = waits[linked[:, COL["unit"]] == unit].sum(axis=0)
    counters[1:, COUNTERS.index("idle")] += idle
    return counters


def _params(config: Config, stream_beat: int, max_cycles: int) -> Ints:
    dram = config.dram
    values = {
        "read_latency": dram.read_latency,
        "write_latency": dram.write_latency,
        "outstanding_reads": contract.outstanding_reads(config),
        "outstanding_writes": dram.outstanding_writes,
        "beat_cycles": dram.beat_cycles,
        "burst_gap": dram.burst_gap,
        "burst_beats": config.burst_beats,
        "page_beats": contract.page_beats(config),
        "stream_base": stream_beat,
        "stream_beats": stream_beats(config),
        "fetch_buffer": contract.fetch_buffer_beats(config),
        "load_tail": contract.LOAD_TAIL,
        "store_setup": contract.STORE_SETUP,
        "dispatch_delay": contract.DISPATCH_DELAY,
        "command_delay": contract.COMMAND_DELAY,
        "load_setup": contract.LOAD_SETUP,
        "store_tail": contract.STORE_TAIL,
        "ports": config.axi_ports,
        "merge_delay": contract.merge_delay(config),
        "read_delay": contract.read_delay(config),
        "port_delay": contract.PORT_DELAY,
        "bus_bytes": dram.bus_bytes,
        "banks": dram.banks,
        "memory_page": dram.page_bytes // config.axi_bytes,
        "page_miss": dram.page_miss,
        "refresh_interval": dram.refresh_interval,
        "refresh_cycles": dram.refresh_cycles,
        "turnaround": dram.turnaround,
        "beat_bytes": config.axi_bytes,
        "limit": min(max_cycles, MAX_CYCLES),
    }
    return np.array([values[name] for name in at.PARAMS], np.int64)


def _stats(config: Config, program: Program, linked: Ints, timing: Timing) -> RunStats:
    moved = moved_bytes(config, linked)
    opcode = linked[:, COL["opcode"]]
    return RunStats(
        config=config,
        program=program.name,
        program_hash=program.hash,
        total_cycles=timing.total,
        counters={
            unit: dict(zip(COUNTERS, row, strict=True))
            for unit, row in zip(UNITS, timing.counters.tolist(), strict=True)
        },
        starts=timing.starts,
        ends=timing.ends,
        dispatches=timing.dispatches,
        waits=timing.waits,
        macs=macs_of(config, linked),
        bytes_read=int(moved[opcode == Opcode.LOAD].sum()) + len(linked) * instruction_bytes(config),
        bytes_written=int(moved[opcode == Opcode.STORE].sum()),
    )


# --- hangs ----------------------------------------------------------------------------------------
# The error text of a run that does not end: the cause and the state of the machine.


def hang_text(config: Config, columns: Ints, times: Ints, cycle: int, *, timeout: bool) -> str:
    """The cause on one line, then the state of the machine."""
    what = "has not ended" if timeout else "is deadlocked"
    cycle = cycle if timeout else int(times[:, T_D : T_E + 1].max())
    state = _machine_state(columns, times != UNKNOWN)
    return f"timing: the program {what} after cycle {cycle}\n{state.describe(config, columns)}"


def _machine_state(columns: Ints, happened: Bools) -> MachineState:
    started, ended, executed = (_by_unit(columns, happened[:, event]) for event in (T_S, T_E, T_C))
    pushes = [_count(columns, happened[:, T_E], queue.producer, queue.push) for queue in QUEUES]
    pops = [_count(columns, happened[:, T_S], queue.consumer, queue.pop) for queue in QUEUES]
    tokens = tuple(pushed - popped for pushed, popped in zip(pushes, pops, strict=True))
    return MachineState(int(happened[:, T_D].sum()), started, ended, tokens, executed)


def _by_unit(columns: Ints, chosen: Bools) -> tuple[int, ...]:
    """The number of chosen instructions of each unit."""
    return tuple(int((chosen & (columns[:, COL["unit"]] == unit)).sum()) for unit in Unit)


def _count(columns: Ints, chosen: Bools, unit: Unit, token: str) -> int:
    """The number of chosen instructions of a unit that have a token bit set."""
    return int((chosen & (columns[:, COL["unit"]] == unit) & (columns[:, COL[token]] > 0)).sum())
