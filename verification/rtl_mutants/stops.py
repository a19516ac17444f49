# SPDX-License-Identifier: Apache-2.0
"""Runs that do not end by themselves: resets in any cycle, bus errors, invalid instructions.

After each of them the machine has no outstanding transaction and runs the next program right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.random import default_rng

from vdla.hardware.config import Config
from vdla.hardware.generate.registers import OFFSETS, ErrorCode
from vdla.hardware.isa import IsaError, Unit, check, instruction_bytes
from vdla.hardware.isa.instructions import COMPUTE_BUFFERS
from vdla.hardware.program import STREAM
from vdla.hardware.timing import page_beats
from vdla.runtime.devices.rtl import RtlModel
from vdla.verification.programs.extreme_programs import extreme_programs
from vdla.verification.programs.random_dma import SOURCES
from vdla.verification.programs.random_machines import DRAMS
from vdla.verification.rtl_mutants.control_port import BYTES, ENABLE, PENDING
from vdla.verification.rtl_mutants.rig import Check, Rig, require

RESET = 2
BUSY, DONE, ERROR = 1, 2, 4
_READ, _WRITE = 1, 2  # channels of an injected error
_SHORT, _LONG = 16, 25  # instructions
_HALT_CYCLES = 3  # from an error until the halt; instructions pass meanwhile
_LAST_CYCLES = 64  # cycles around the end of a run; a reset is tried in each
_LATEST = 40  # of them after its last counted cycle: the counters are folded before the machine is idle
_RESETS = 40  # anywhere in a run
_LONG_RESETS = 4
_ERRORS = 24
_INVALID = 24


def stop_scenarios() -> Iterator[tuple[str, Check]]:
    """The scenarios of stops with their names."""
    yield "invalid instructions", _invalid
    yield "resets", lambda config, model, seed: _resets(config, model, seed, 0)
    yield "resets at the end", _resets_at_the_end
    yield "resets of long instructions", _resets_of_long_instructions
    yield "errors", lambda config, model, seed: _errors(config, model, seed, 0)
    yield "errors of the first burst", _errors_of_the_first_burst
    for number in range(1, 3):
        yield f"resets under stalls {number}", _under_stalls(_resets, number)
        yield f"errors under stalls {number}", _under_stalls(_errors, number)
    slow = DRAMS[2]
    yield "resets, slow memory", lambda config, model, seed: _resets(replace(config, dram=slow), model, seed, 0)


def _under_stalls(scenario: Callable[[Config, RtlModel | None, int, int], None], number: int) -> Check:
    return lambda config, model, seed: scenario(config, model, seed + number, 1 + seed + number)


# --- resets ---------------------------------------------------------------------------------------


def _resets(config: Config, model: RtlModel | None, seed: int, stalls: int) -> None:
    """A reset in any cycle ends quietly; a second one may come during the first."""
    rng = default_rng(seed)
    with Rig(config, model, seed, _LONG, stalls) as rig:
        for number in range(_RESETS):
            rig.refill()
            rig.configure(seed=rig.stalls + number)
            rig.start()
            rig.pass_cycles(int(rng.integers(1 + rig.cycles)))
            rig.driver.request_reset()
            rig.pass_cycles(int(rng.integers(8)) if number % 4 == 0 else 0)
            rig.reset()
            require(rig.driver.read("DISPATCHED") == 0, "a reset must clear the progress")
            if number % 8 == 0:
                rig.run_correctly()
        rig.run_correctly()


def _resets_at_the_end(config: Config, model: RtlModel | None, seed: int) -> None:
    """A reset that finds the machine busy cancels the end of its run, whatever the cycle."""
    with Rig(config, model, seed, _SHORT) as rig:
        rig.run_correctly()
        pins = {"awvalid": 1, "awaddr": OFFSETS["CONTROL"], "wvalid": 1, "wdata": RESET, "wstrb": BYTES}
        for early in range(_LAST_CYCLES):
            rig.refill()
            rig.configure()
            rig.start()
            rig.pass_cycles(max(0, rig.cycles + _LATEST - early))
            answer = rig.machine.control_cycle(**pins, arvalid=1, araddr=OFFSETS["STATUS"], bready=1)
            status = None
            for _ in range(_LAST_CYCLES):
                answer = rig.machine.control_cycle(bready=1, rready=1)
                status = answer.rdata if answer.rvalid else status
            require(status is not None, "STATUS must be read")
            rig.settle()
            pending = rig.driver.read("INTERRUPT")
            wanted = 0 if status == BUSY else PENDING
            require(pending == wanted, f"INTERRUPT must be {wanted} after a reset at STATUS {status}, got {pending}")
        rig.run_correctly()


def _resets_of_long_instructions(config: Config, model: RtlModel | None, seed: int) -> None:
    """A reset while units work through long instructions leaves none of them to the next run."""
    *_, program = extreme_programs(config, seed)
    with Rig(config, model, seed, program) as rig:
        for number in range(_LONG_RESETS):
            rig.refill()
            rig.configure()
            rig.start()
            rig.pass_cycles(rig.cycles * (number + 1) // (_LONG_RESETS + 1))
            rig.reset()
            rig.run_correctly()
            cycles = rig.driver.read_wide("CYCLES")
            require(cycles == rig.cycles, f"a run after a reset must take {rig.cycles} cycles, got {cycles}")


# --- errors ---------------------------------------------------------------------------------------


def _errors(config: Config, model: RtlModel | None, seed: int, stalls: int) -> None:
    """An error response stops the machine; ERROR names the unit, ERROR_INDEX its instruction."""
    rng = default_rng(seed)
    with Rig(config, model, seed, _LONG, stalls) as rig:
        rig.run_correctly()
        bursts = dict(zip((_READ, _WRITE), rig.machine.bursts, strict=True))
        for number in range(_ERRORS):
            channel = _WRITE if number % 4 == 3 else _READ
            beat = 0 if number % 2 else int(rng.integers(config.burst_beats))
            rig.refill()
            rig.configure(
                error_channel=channel,
                error_burst=int(rng.integers(bursts[channel])),
                error_beat=beat,
                error_response=int(rng.choice([2, 3])),
                seed=rig.stalls + number,
            )
            rig.start()
            rig.wait()
            _is_reported(rig, channel)
        rig.run_correctly()


def _errors_of_the_first_burst(config: Config, model: RtlModel | None, seed: int) -> None:
    """An error of any beat of the first burst, of any port's part of it, is one of fetch."""
    with Rig(config, model, seed, _LONG) as rig:
        stream = rig.addresses[STREAM] // config.axi_bytes
        words = len(rig.program.words) * instruction_bytes(config) // config.axi_bytes
        beats = min(config.burst_beats, words, page_beats(config) - stream % page_beats(config))
        for beat in range(beats * config.axi_ports):
            rig.refill()
            rig.configure(error_channel=_READ, error_burst=0, error_beat=beat, error_response=2 + beat % 2)
            rig.start()
            rig.wait()
            code = rig.driver.read("ERROR")
            require(code == ErrorCode.FETCH, f"an error of beat {beat} must be one of fetch, got {code}")
            _is_reported(rig, _READ)
        rig.run_correctly()


def _is_reported(rig: Rig, channel: int) -> None:
    """The registers after a run with an injected error, which the run may not have met."""
    status, code = rig.driver.read("STATUS"), rig.driver.read("ERROR")
    address = rig.machine.error_address
    wanted = DONE if address is None else ERROR
    require(status == wanted, f"STATUS must be {wanted} after the run, got {status:#x}")
    rig.driver.write("INTERRUPT", ENABLE | PENDING)
    require(rig.machine.memory_idle, "no transaction may be outstanding after the interrupt")
    rig.progress_equals_events()
    if address is None:
        require(code == ErrorCode.NONE, f"ERROR must be NONE after a run to the end, got {code}")
        return
    units = _readers(rig, address) if channel == _READ else {ErrorCode.STORE}
    require(code in units, f"ERROR must name the unit of a burst at {address:#x}, got {code}")
    log, index = rig.machine.trace(), rig.driver.read("ERROR_INDEX")
    times = log.dispatches if code == ErrorCode.FETCH else log.ends[Unit[ErrorCode(code).name]]
    # Instructions may pass from the cycle of the error to the halt; the index counts none of them.
    require(index <= len(times), f"ERROR_INDEX must be at most {len(times)}, got {index}")
    late = times[index:]
    require(
        not len(late) or late[-1] - late[0] < _HALT_CYCLES,
        f"instructions from ERROR_INDEX {index} on must pass within {_HALT_CYCLES} cycles, got {late.tolist()}",
    )


def _readers(rig: Rig, address: int) -> set[ErrorCode]:
    """The units that may read at an address, by the tensor at it."""
    name = max((place, name) for name, place in rig.addresses.items() if place <= address)[1]
    if name == STREAM:
        return {ErrorCode.FETCH}
    buffers = [buffer for buffer, source in SOURCES.items() if source == name] or list(SOURCES)
    return {ErrorCode.COMPUTE if buffer in COMPUTE_BUFFERS else ErrorCode.LOAD for buffer in buffers}


def _invalid(config: Config, model: RtlModel | None, seed: int) -> None:
    """A word that the encoder cannot make stops the machine at its index."""
    rng = default_rng(seed)
    nbytes = instruction_bytes(config)
    with Rig(config, model, seed, _SHORT) as rig:
        for _ in range(_INVALID):
            rig.refill()
            rig.configure()
            stream = rig.memory[rig.addresses[STREAM] :][: len(rig.program.words) * nbytes].reshape(-1, nbytes)
            index = int(rng.integers(len(stream)))
            while not _refused(config, stream[index : index + 1]):
                bit = int(rng.integers(8 * nbytes))
                stream[index, bit // 8] ^= 1 << bit % 8
            rig.start()
            rig.wait()
            code, where = rig.driver.read("ERROR"), rig.driver.read("ERROR_INDEX")
            require(rig.driver.read("STATUS") == ERROR, f"instruction {index} must be refused")
            require(
                (code, where) == (ErrorCode.INSTRUCTION, index), f"the error must be at {index}, got {code}, {where}"
            )
            rig.driver.write("INTERRUPT", ENABLE | PENDING)
            rig.progress_equals_events()
            require(rig.machine.memory_idle, "no transaction may be outstanding after the interrupt")
        rig.run_correctly()


def _refused(config: Config, word: np.ndarray) -> bool:
    try:
        check(config, word)
    except IsaError:
        return True
    return False
