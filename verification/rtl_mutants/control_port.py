# SPDX-License-Identifier: Apache-2.0
"""The registers against their table; the AXI4-Lite port with accesses of any order and delay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, default_rng

from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash
from vdla.hardware.generate.registers import ADDRESS_BITS, ID, OFFSETS, REGISTERS, VERSION, Register, RegisterAccess
from vdla.runtime.devices.rtl import RtlModel
from vdla.runtime.devices.rtl_library import RtlMachine
from vdla.verification.rtl_mutants.rig import Check, Rig, require

OKAY, SLVERR = 0, 2
ENABLE, PENDING = 1, 2
START = 1
MOST_CYCLES = 2000
BYTES = 0xF
_COUNT = 12  # instructions of the programs
_LAST_OF_A_RUN = 40  # cycles within which an empty stream ends


@dataclass(frozen=True, slots=True)
class Write:
    """A write of the bytes of `strobe`."""

    offset: int
    value: int
    strobe: int = BYTES


def control_port_scenarios() -> Iterator[tuple[str, Check]]:
    """The scenarios of the control port with their names."""
    yield "registers", _registers
    yield "accesses in flight", _accesses_in_flight
    yield "interrupt", _interrupt
    yield "busy", _busy


def transact(
    machine: RtlMachine,
    rng: Generator,
    writes: Sequence[Write] = (),
    reads: Sequence[int] = (),
    pause: float = 0.4,
) -> tuple[list[int], list[tuple[int, int]]]:
    """All accesses, each channel on its own and as early as it can; the responses in order.

    Returns the responses of the writes, and value and response of each read. `pause` is the chance
    of a channel to wait in a cycle.
    """
    pending = {"aw": len(writes), "w": len(writes), "ar": len(reads)}
    offered = dict.fromkeys(pending, False)
    said: list[int] = []
    got: list[tuple[int, int]] = []
    held: dict[str, tuple[int, ...]] = {}
    for _ in range(MOST_CYCLES):
        for channel, count in pending.items():
            offered[channel] = count > 0 and (offered[channel] or rng.random() >= pause)
        at = {channel: -count for channel, count in pending.items()}
        pins = {"bready": int(rng.random() >= pause), "rready": int(rng.random() >= pause)}
        if offered["aw"]:
            pins |= {"awvalid": 1, "awaddr": writes[at["aw"]].offset}
        if offered["w"]:
            pins |= {"wvalid": 1, "wdata": writes[at["w"]].value, "wstrb": writes[at["w"]].strobe}
        if offered["ar"]:
            pins |= {"arvalid": 1, "araddr": reads[at["ar"]]}
        out = machine.control_cycle(**pins)
        ready_of = {"aw": out.awready, "w": out.wready, "ar": out.arready}
        _answer_is_stable(held, "write", pins["bready"], out.bvalid, (out.bresp,))
        _answer_is_stable(held, "read", pins["rready"], out.rvalid, (out.rdata, out.rresp))
        if out.bvalid and pins["bready"]:
            said.append(out.bresp)
        if out.rvalid and pins["rready"]:
            got.append((out.rdata, out.rresp))
        accepted = len(writes) - max(pending["aw"], pending["w"]), len(reads) - pending["ar"]
        require(len(said) <= accepted[0] and len(got) <= accepted[1], "a response must follow its access")
        for channel, ready in ready_of.items():
            if offered[channel] and ready:
                pending[channel] -= 1
                offered[channel] = False
        if len(said) == len(writes) and len(got) == len(reads):
            return said, got
    require(False, f"{len(writes)} writes and {len(reads)} reads must be answered within {MOST_CYCLES} cycles")
    return said, got


def _answer_is_stable(
    held: dict[str, tuple[int, ...]], what: str, ready: int, valid: int, answer: tuple[int, ...]
) -> None:
    before = held.pop(what, None)
    require(before is None or bool(valid and answer == before), f"the response of a {what} must stay until it is taken")
    if valid and not ready:
        held[what] = answer


def _rig(config: Config, model: RtlModel | None, seed: int) -> Rig:
    return Rig(config, model, seed, _COUNT)


# --- the table ------------------------------------------------------------------------------------


def _registers(config: Config, model: RtlModel | None, seed: int) -> None:
    """Every register as the table has it; any other address is refused."""
    rng = default_rng(seed)
    known = {register.offset: register for register in REGISTERS}
    first = _first_values(config, model)
    with _rig(config, model, seed) as rig:
        for offset in range(0, 1 << ADDRESS_BITS, 4):
            if offset in known:
                _holds(rig.machine, rng, known[offset], first[known[offset].name])
            else:
                said, got = transact(rig.machine, rng, [Write(offset, 0xFFFFFFFF)], [offset], pause=0)
                require(said == [SLVERR] and got == [(0, SLVERR)], f"address {offset:#x} must be refused")
        values = [int(rng.integers(1, 1 << 8)) for _ in _writable()]
        _write_all(rig.machine, rng, values)
        for register in REGISTERS:
            if register.access is RegisterAccess.RO:
                _holds(rig.machine, rng, register, first[register.name])


def _writable() -> list[Register]:
    return [register for register in REGISTERS if register.access is RegisterAccess.RW]


def _first_values(config: Config, model: RtlModel | None) -> dict[str, int]:
    """The registers after a reset."""
    values = {register.name: register.reset for register in REGISTERS} | {"ID": ID, "VERSION": VERSION}
    build = (model and model.build) or build_hash(config)
    for name, value in (("FINGERPRINT", int(config.fingerprint, 16)), ("BUILD", int(build, 16))):
        values |= {f"{name}_LO": value & 0xFFFFFFFF, f"{name}_HI": value >> 32}
    return values


def _holds(machine: RtlMachine, rng: Generator, register: Register, value: int) -> None:
    """The register has its value, and keeps or takes written ones."""
    _, got = transact(machine, rng, reads=[register.offset], pause=0)
    require(got == [(value, OKAY)], f"{register.name} must be {value:#x}, got {got}")
    if register.access is RegisterAccess.RO:
        said, _ = transact(machine, rng, [Write(register.offset, int(rng.integers(1 << 32)))], pause=0)
        _, got = transact(machine, rng, reads=[register.offset], pause=0)
        require(said == [SLVERR] and got == [(value, OKAY)], f"{register.name} must refuse a write")
    elif register.access is RegisterAccess.RW:
        for written, strobe in _writes(rng, register):
            said, _ = transact(machine, rng, [Write(register.offset, written, strobe)], pause=0)
            mask = sum(0xFF << 8 * lane for lane in range(4) if strobe >> lane & 1)
            merged = value & ~mask | written & mask
            refused = register.limits is not None and not register.limits[0] <= merged <= register.limits[1]
            value = value if refused else merged & (1 << register.width) - 1
            _, got = transact(machine, rng, reads=[register.offset], pause=0)
            require(said == [SLVERR if refused else OKAY], f"{register.name} must refuse what exceeds its limits only")
            require(got == [(value, OKAY)], f"{register.name} must hold {value:#x}, got {got}")


def _writes(rng: Generator, register: Register) -> Iterator[tuple[int, int]]:
    """Values and the strobes of their bytes: at limits, each byte alone, any."""
    for value in () if register.limits is None else (*register.limits, 0, register.limits[1] + 1, register.limits[0]):
        yield value, BYTES
    for strobe in (BYTES, 1, 2, 4, 8, int(rng.integers(16))):
        yield int(rng.integers(1 << 32)), strobe
    if register.limits is not None:
        yield 0x1234, 1


def _write_all(machine: RtlMachine, rng: Generator, values: Sequence[int]) -> None:
    writes = [Write(register.offset, value) for register, value in zip(_writable(), values, strict=True)]
    said, _ = transact(machine, rng, writes)
    require(said == [OKAY] * len(writes), f"an idle machine must accept the set-up, got {said}")


# --- the port -------------------------------------------------------------------------------------


def _accesses_in_flight(config: Config, model: RtlModel | None, seed: int) -> None:
    """Accesses in flight, each channel with its own pauses, give what single ones give."""
    rng = default_rng(seed)
    fixed = {OFFSETS[name]: value for name, value in (("ID", ID), ("VERSION", VERSION))}
    with _rig(config, model, seed) as rig:
        for pause in (0.0, 0.3, 0.7):
            values = [int(rng.integers(1, 1 << 8)) for _ in _writable()]
            order = rng.permutation(len(values))
            writes = [Write(_writable()[k].offset, values[k]) for k in order]
            writes += [Write(OFFSETS["ID"], 0), Write(0xFFC, 1), Write(OFFSETS["STREAM_LO"], values[0], 0)]
            reads = [int(rng.choice(list(fixed))) for _ in writes]
            said, got = transact(rig.machine, rng, writes, reads, pause)
            require(
                said == [OKAY] * len(order) + [SLVERR, SLVERR, OKAY], f"writes must be answered in order, got {said}"
            )
            require(got == [(fixed[offset], OKAY) for offset in reads], f"reads beside writes must be right, got {got}")
            wanted = {register.offset: (value, OKAY) for register, value in zip(_writable(), values, strict=True)}
            wanted |= {offset: (value, OKAY) for offset, value in fixed.items()} | {0xFFC: (0, SLVERR)}
            reads = [int(offset) for offset in rng.choice(list(wanted), 40)]
            _, got = transact(rig.machine, rng, (), [offset + int(rng.integers(4)) for offset in reads], pause)
            require(got == [wanted[offset] for offset in reads], f"reads in flight must be right, got {got}")


def _busy(config: Config, model: RtlModel | None, seed: int) -> None:
    """A busy machine refuses its set-up and a second start, without effect."""
    rng = default_rng(seed)
    with _rig(config, model, seed) as rig:
        rig.refill()
        rig.start()
        before = [rig.driver.read(register.name) for register in _writable()]
        writes = [Write(register.offset, value ^ 1) for register, value in zip(_writable(), before, strict=True)]
        said, _ = transact(rig.machine, rng, [*writes, Write(OFFSETS["CONTROL"], START)], pause=0)
        require(rig.driver.read("STATUS") == 1, "the machine must be busy")
        require(said == [SLVERR] * len(said), f"a busy machine must refuse its set-up and a start, got {said}")
        require(before == [rig.driver.read(register.name) for register in _writable()], "the set-up must stay")
        rig.wait()
        rig.driver.finish()
        require(bool(np.array_equal(rig.memory, rig.wanted)), "memory must be as the simulator's")
        rig.run_correctly()


# --- the interrupt --------------------------------------------------------------------------------


def _interrupt(config: Config, model: RtlModel | None, seed: int) -> None:
    """A clear of the interrupt in any cycle loses no end of a run."""
    with _rig(config, model, seed) as rig:
        for delay in range(_LAST_OF_A_RUN):
            rig.driver.write("INTERRUPT", ENABLE | PENDING)
            rig.driver.write("COUNT", 0)
            rig.driver.write("CONTROL", START)
            seen = [rig.machine.control_cycle().irq for _ in range(delay)]
            pins = {
                "awvalid": 1,
                "awaddr": OFFSETS["INTERRUPT"],
                "wvalid": 1,
                "wdata": ENABLE | PENDING,
                "wstrb": BYTES,
            }
            seen.append(rig.machine.control_cycle(**pins, bready=1).irq)
            seen += [rig.machine.control_cycle(bready=1).irq for _ in range(_LAST_OF_A_RUN)]
            pending = rig.driver.read("INTERRUPT")
            require(any(seen), f"the end of a run must raise the interrupt (clear after {delay} cycles)")
            require(pending in (ENABLE, ENABLE | PENDING), f"INTERRUPT must be enabled, got {pending}")
            require(seen[-1] == pending >> 1, "the line must follow `pending`")
            require(rig.driver.read("STATUS") == 2, "an empty stream must be done")
            require(rig.driver.read_wide("CYCLES") == 0, "an empty stream must take no cycles")
        _line_follows(rig)


def _line_follows(rig: Rig) -> None:
    for enable, clear in ((0, 0), (ENABLE, 0), (0, 0), (ENABLE, 0), (ENABLE, PENDING)):
        if not clear:
            rig.driver.write("COUNT", 0)
            rig.driver.write("INTERRUPT", enable | PENDING)
            rig.driver.write("CONTROL", START)
            for _ in range(_LAST_OF_A_RUN):
                rig.machine.control_cycle()
        rig.driver.write("INTERRUPT", enable | clear)
        pending = 0 if clear else PENDING
        require(rig.driver.read("INTERRUPT") == enable | pending, "INTERRUPT must hold enable and pending")
        line = rig.machine.control_cycle().irq
        require(line == int(bool(enable and pending)), f"the line must be {enable and pending}, got {line}")
