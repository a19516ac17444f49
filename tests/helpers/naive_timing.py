# SPDX-License-Identifier: Apache-2.0
"""The timing contract as a cycle-by-cycle model, independent of the event-driven simulator.

Decisions of a cycle read the state before it; changes take effect at its end.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from vdla.hardware import timing as contract
from vdla.hardware.isa import EXTENSION, Buffer, OldSum, Opcode, instruction_bytes, isa_of
from vdla.hardware.timing import COMPUTES_IN_FLIGHT

LOAD, COMPUTE, STORE = 0, 1, 2
POPS = {
    LOAD: {"next": "compute_to_load"},
    COMPUTE: {"prev": "load_to_compute", "next": "store_to_compute"},
    STORE: {"prev": "compute_to_store"},
}
PUSHES = {
    LOAD: {"next": "load_to_compute"},
    COMPUTE: {"prev": "compute_to_load", "next": "compute_to_store"},
    STORE: {"prev": "store_to_compute"},
}


class Memory:
    """The memory behind the ports: bursts in the order in which they come, each at a time on its
    bus.
    """

    def __init__(self, config):
        self.dram, self.beat_bytes = config.dram, config.axi_bytes
        self.bus_free = Fraction(0)
        self.last = "read"
        self.banks = {}  # bank: (row, refreshes so far, end of its last burst)

    def refreshes(self, t):
        """(refreshes begun until t, the end of the last one)."""
        count = int(t) // self.dram.refresh_interval if self.dram.refresh_interval else 0
        return count, count * self.dram.refresh_interval + self.dram.refresh_cycles if count else 0

    def begin(self, kind, t, beat, beats):
        """When a burst that comes at t begins."""
        dram = self.dram
        row, bank = divmod(beat * self.beat_bytes // dram.page_bytes, dram.banks)
        start = max(Fraction(t), self.bus_free + (dram.turnaround if kind != self.last else 0))
        count, refreshed = self.refreshes(start)
        start = max(start, refreshed)
        open_row, opened_after, used = self.banks.get(bank, (None, 0, 0))
        if (open_row, opened_after) != (row, count):
            start = max(start, max(t, used, refreshed) + dram.page_miss)
        self.bus_free, self.last = start + Fraction(beats * self.beat_bytes, dram.bus_bytes), kind
        self.banks[bank] = row, count, ceil(self.bus_free)
        return ceil(start)


class Deadlock(Exception):
    pass


@dataclass
class Burst:
    owner: object
    granted: int
    beats: int
    port: int
    times: list = field(default_factory=list)  # of its port beats
    delivered: int = 0
    wait: int = 0  # for the memory behind the ports


class Instr:
    def __init__(self, config, row, extra):
        self.row = {name: int(row[index]) for name, index in isa_of(config).col.items()}
        self.config = config
        self.op = self.row["opcode"]
        self.unit = self.row["unit"]
        self.extra = extra
        self.D = self.S = self.F = self.C = self.E = None
        self.pads = self.pad_count()
        self.bursts = deque(self.cut()) if self.op in (Opcode.LOAD, Opcode.STORE) else deque()
        self.requests_from = None

    def pad_count(self):
        r = self.row
        if self.op != Opcode.LOAD:
            return 0
        rows = r["y_before"] + r["y_size"] + r["y_after"]
        columns = r["x_before"] + r["x_size"] + r["x_after"]
        return r["z_size"] * (rows * columns - r["y_size"] * r["x_size"])

    def cut(self):
        r, config = self.row, self.config
        if self.op == Opcode.STORE or r["widen"]:
            entry = config.out_entry_bytes // config.axi_bytes
        else:
            entry = config.entry_bytes[r["buffer"]] // config.axi_bytes
        if r["x_size"] == 0 or r["y_size"] == 0:
            return
        row = r["x_size"] * entry
        rows = [
            [(r["dram"] + z * r["z_stride"] + y * r["y_stride"], row) for y in range(r["y_size"])]
            for z in range(r["z_size"])
        ]
        if r["y_size"] == 1 or r["y_stride"] == row:
            planes = [(plane[0][0], row * r["y_size"]) for plane in rows]
            if r["z_size"] == 1 or r["z_stride"] == planes[0][1]:
                planes = [(planes[0][0], planes[0][1] * r["z_size"])]
        else:
            planes = [run for plane in rows for run in plane]
        for address, beats in planes:
            yield from cut_run(config, address, beats)

    def requests(self, t):
        return self.requests_from is not None and t >= self.requests_from

    def tokens(self, what, queues):
        return [queue for side, queue in queues[self.unit].items() if self.row[f"{what}_{side}"]]

    @property
    def kind(self):
        return self.op, self.row.get("extension", 0)

    def last_result(self, t):
        """When the last step of an instruction of an extension has its result, step by step."""
        plug_in = self.config.extensions[self.row["extension"]]
        fields = {**self.row, **{f.name: self.row[f"{plug_in.name}.{f.name}"] for f in plug_in.fields}}
        interval, latency = (
            eval(f.text, {"max": max, "min": min}, fields) for f in (plug_in.interval, plug_in.latency)
        )
        reads_source = plug_in.src is not None and plug_in.src.buffer == Buffer.ACC
        ports = (plug_in.old in (OldSum.READ, OldSum.ACCUMULATE)) + reads_source
        datapath_reads = plug_in.old == OldSum.READ or reads_source
        behind = 0
        if plug_in.writes_inputs:
            datapath_reads, behind = plug_in.src is not None and plug_in.src.buffer == Buffer.INP, 4
        for _ in range(self.iterations):
            begun, t = t, t + 1
            while t - begun < interval or t - begun < ports or (datapath_reads and t - begun <= latency + behind):
                t += 1
        return t + latency

    @property
    def iterations(self):
        return self.row["loop0"] * self.row["loop1"] * (self.row["uop_end"] - self.row["uop_begin"]) + self.extra


def cut_run(config, address, beats):
    page = 4096 // config.axi_bytes
    while beats:
        n = 1
        while n < beats and n < config.burst_beats and (address + n) % page:
            n += 1
        yield address, n
        address += n
        beats -= n


@dataclass
class Unit:
    number: int
    queue: deque = field(default_factory=deque)
    flight: list = field(default_factory=list)
    current: Instr | None = None
    previous: Instr | None = None
    left: int = 0
    tentative: int = 0


class Machine:
    def __init__(self, config, columns, stream_beat, extra):
        self.config = config
        self.program = [Instr(config, row, int(e)) for row, e in zip(columns, extra, strict=True)]
        self.units = [Unit(n) for n in range(3)]
        for instr in self.program:
            self.units[instr.unit].left += 1
        self.tokens = Counter()
        self.reads = deque()
        self.memory = Memory(config)
        self.reads_granted = 0
        self.last_port_beat = [None] * config.axi_ports
        self.last_write_beat = None
        self.responses = []
        self.write = None
        self.word = instruction_bytes(config) // config.axi_bytes
        self.fetch_bursts = deque(cut_run(config, stream_beat, len(self.program) * self.word))
        self.fetch_room = max(contract.FETCH_BUFFER_BURSTS * config.burst_beats, 2 * self.word)
        self.fetch_granted = self.dispatched = 0
        self.fetch_beats = []
        self.counts = {name: Counter() for name in ("fetch", "load", "compute", "store")}
        self.later = []

    def run(self, limit=10**6):
        t = 0
        while self.dispatched < len(self.program) or any(unit.left or unit.flight for unit in self.units):
            if t > limit:
                raise Deadlock
            self.cycle(t)
            t += 1
        for unit in self.units:
            self.counts[("load", "compute", "store")[unit.number]]["idle"] += unit.tentative
        return t

    def do_later(self, action, *args):
        self.later.append((action, args))

    def cycle(self, t):
        self.later = []
        granted = self.arbitrate(t)
        self.port_beats(t)
        beat_of = self.read_beat(t)
        dispatched = self.dispatch(t)
        states = [self.unit_cycle(unit, t) for unit in self.units]
        self.classify_fetch(t, beat_of, dispatched, granted)
        for unit, state in zip(self.units, states, strict=True):
            self.classify_unit(unit, t, beat_of, state)
        for action, args in self.later:
            action(*args)

    # --- memory -----------------------------------------------------------------------------------

    def arbitrate(self, t):
        if len(self.reads) >= contract.outstanding_reads(self.config):
            return None
        if self.fetch_bursts:
            n = self.fetch_bursts[0][1]
            if self.fetch_granted + n - self.dispatched * self.word <= self.fetch_room:
                self.do_later(self.add, "fetch_granted", n)
                self.grant("fetch", t, *self.fetch_bursts.popleft())
                return "fetch"
        for number in (COMPUTE, LOAD):
            current = self.units[number].current
            if current is not None and current.op == Opcode.LOAD and current.requests(t) and current.bursts:
                self.grant(current, t, *current.bursts.popleft())
                if not current.bursts:
                    current.F = t + 1
                return current
        return None

    def grant(self, owner, t, beat, n):
        self.reads.append(Burst(owner, t, n, self.reads_granted % self.config.axi_ports))
        self.reads_granted += 1
        self.do_later(self.serve_read, self.reads[-1], beat)

    def serve_read(self, burst, beat):
        """The address is at the port in the cycle after the grant."""
        if self.config.dram.bus_bytes:
            arrival = burst.granted + 1
            burst.wait = self.memory.begin("read", arrival, beat, burst.beats) - arrival

    def port_beats(self, t):
        """Delivers the beat that is due on each port, if any."""
        dram, ports = self.config.dram, self.config.axi_ports
        for port in range(ports):
            waiting = [b for b in self.reads if b.port == port and len(b.times) < b.beats * ports]
            if not waiting:
                continue
            burst, last = waiting[0], self.last_port_beat[port]
            gap = 0 if burst.times else dram.burst_gap
            early = not burst.times and t < burst.granted + contract.PORT_DELAY + dram.read_latency + burst.wait
            if not early and (last is None or t >= last + dram.beat_cycles + gap):
                burst.times.append(t)
                self.last_port_beat[port] = t

    def add(self, name, n):
        setattr(self, name, getattr(self, name) + n)

    def read_beat(self, t):
        """Delivers the next beat, if its port beats are there; returns the owner of its burst."""
        if not self.reads:
            return None
        burst = self.reads[0]
        needed = (burst.delivered + 1) * self.config.axi_ports
        if len(burst.times) < needed or t < burst.times[needed - 1] + contract.merge_delay(self.config):
            return None
        self.do_later(self.deliver, burst, t)
        return burst.owner

    def due(self, burst):
        return burst.granted + contract.read_delay(self.config) + self.config.dram.read_latency

    def deliver(self, burst, t):
        burst.delivered += 1
        if burst.owner == "fetch":
            self.fetch_beats.append(t)
        if burst.delivered == burst.beats:
            self.reads.popleft()
            if (
                burst.owner != "fetch"
                and not burst.owner.bursts
                and not any(b.owner is burst.owner for b in self.reads)
            ):
                burst.owner.C = t + contract.LOAD_TAIL

    # --- fetch ------------------------------------------------------------------------------------

    def dispatch(self, t):
        k = self.dispatched
        if k == len(self.program) or not self.arrived(k, t):
            return None
        instr = self.program[k]
        queue = self.units[instr.unit].queue
        if len(queue) >= self.config.command_depth:
            return None
        instr.D = t
        self.do_later(queue.append, instr)
        self.do_later(self.add, "dispatched", 1)
        return instr

    def arrived(self, k, t):
        """Whether instruction k can be dispatched at t, if its queue has room."""
        beats = (k + 1) * self.word
        return len(self.fetch_beats) >= beats and t >= self.fetch_beats[beats - 1] + contract.DISPATCH_DELAY

    def own_state(self, owner_test, t, beat_of):
        bursts = [b for b in self.reads if owner_test(b.owner)]
        if not bursts:
            return None
        if beat_of is not None and owner_test(beat_of):
            return "busy"
        if bursts[0].delivered == 0 and t < self.due(bursts[0]):
            return "memory_latency"
        return "memory_bandwidth"

    def classify_fetch(self, t, beat_of, dispatched, granted):
        state = self.own_state(lambda owner: owner == "fetch", t, beat_of)
        if state is None:
            if dispatched is not None:
                state = "busy"
            elif self.dispatched == len(self.program):
                state = "idle"
            elif self.arrived(self.dispatched, t):
                state = "commands"
            else:
                state = "memory_bandwidth"
        self.counts["fetch"][state] += 1

    # --- units ------------------------------------------------------------------------------------

    def unit_cycle(self, unit, t):
        """Advances the unit by cycle t; returns its counter, unless its own bursts decide it."""
        if unit.current is not None and unit.current.F is not None and t >= unit.current.F:
            unit.previous, unit.current = unit.current, None
        blocked = self.end_oldest(unit, t)
        if unit.current is None:
            started, reason = self.try_start(unit, t, blocked)
            if not started:
                return reason
            unit.current = started
            return self.begin(unit, started, t)
        return self.work_on(unit, unit.current, t, blocked)

    def end_oldest(self, unit, t):
        """Ends the oldest instruction if possible; otherwise returns the queue that blocks it, if
        any.
        """
        if not unit.flight:
            return None
        oldest = unit.flight[0]
        if oldest.C is None or t < oldest.C:
            return None
        full = [q for q in oldest.tokens("push", PUSHES) if self.tokens[q] >= self.config.token_depth]
        if full:
            return full[0]
        oldest.E = t
        self.do_later(unit.flight.pop, 0)
        for queue in oldest.tokens("push", PUSHES):
            self.do_later(self.move, queue, 1)
        return None

    def move(self, queue, n):
        self.tokens[queue] += n

    def try_start(self, unit, t, blocked):
        if not unit.queue or t < unit.queue[0].D + contract.COMMAND_DELAY:
            if unit.left == 0 and unit.flight:
                return None, self.held(unit, blocked)
            return None, "commands"
        head = unit.queue[0]
        for queue in head.tokens("pop", POPS):
            if self.tokens[queue] == 0:
                return None, f"wait_{queue}"
        if not self.may_follow(unit, head):
            return None, self.held(unit, blocked)
        return head, None

    def held(self, unit, blocked):
        if blocked:
            return f"wait_{blocked}"
        return "memory_latency" if unit.number == STORE else "busy"

    def may_follow(self, unit, head):
        if unit.number == LOAD:
            return len(unit.flight) < contract.LOADS_IN_FLIGHT
        if unit.number == STORE:
            return len(unit.flight) < contract.STORES_IN_FLIGHT
        looped = head.op in (Opcode.GEMM, Opcode.VECTOR, EXTENSION)
        if looped and unit.previous is not None and head.kind == unit.previous.kind:
            return len(unit.flight) < COMPUTES_IN_FLIGHT
        return not unit.flight

    def begin(self, unit, instr, t):
        instr.S = t
        unit.left -= 1
        self.do_later(unit.queue.popleft)
        self.do_later(unit.flight.append, instr)
        for queue in instr.tokens("pop", POPS):
            self.do_later(self.move, queue, -1)
        if instr.op == Opcode.SYNC:
            instr.F = instr.C = t + 1
        elif instr.op in (Opcode.GEMM, Opcode.VECTOR):
            last = t + instr.iterations + contract.ISSUE_DELAY
            instr.F = t + instr.iterations if instr.op == Opcode.GEMM else last
            instr.C = last + contract.compute_depth(self.config)
        elif instr.op == EXTENSION:
            instr.F = instr.last_result(t) + contract.ISSUE_DELAY
            instr.C = instr.F + contract.compute_depth(self.config)
        elif instr.op == Opcode.LOAD and instr.pads == 0:
            instr.requests_from = t + contract.LOAD_SETUP
        return "busy"

    def work_on(self, unit, instr, t, blocked):
        if instr.op == Opcode.STORE:
            return self.store_beat(instr, t)
        if instr.op != Opcode.LOAD:
            return "busy"
        if instr.requests(t):
            return "memory_bandwidth"
        if instr.pads == 0:
            return "busy"
        if t < instr.S + contract.LOAD_SETUP or unit.flight[0] is not instr:
            return f"wait_{blocked}" if blocked else "busy"
        instr.pads -= 1
        if instr.pads == 0:
            if instr.bursts:
                instr.requests_from = t + 1
            else:
                instr.F, instr.C = t + 1, t + contract.LOAD_TAIL
        return "busy"

    def store_beat(self, instr, t):
        if t < instr.S + contract.STORE_SETUP:
            return "busy"
        dram = self.config.dram
        self.responses = [r for r in self.responses if r >= t]
        if self.write is None:
            early = self.last_write_beat is not None and t < self.last_write_beat + dram.beat_cycles + dram.burst_gap
            if early or len(self.responses) >= dram.outstanding_writes:
                return "memory_bandwidth"
            beat, n = instr.bursts.popleft()
            self.write = n * self.config.axi_ports
            if dram.bus_bytes:
                self.memory.begin("write", t, beat, n)
        elif t < self.last_write_beat + dram.beat_cycles:
            return "memory_bandwidth"
        self.last_write_beat = t
        self.write -= 1
        if self.write % self.config.axi_ports:
            return "memory_bandwidth"
        if self.write == 0:
            self.write = None
            self.responses.append(t + dram.write_latency + contract.PORT_DELAY)
            if not instr.bursts:
                instr.F, instr.C = t + 1, t + dram.write_latency + contract.STORE_TAIL
        return "busy"

    def classify_unit(self, unit, t, beat_of, state):
        counts = self.counts[("load", "compute", "store")[unit.number]]
        own = self.own_state(lambda owner: owner != "fetch" and owner.unit == unit.number, t, beat_of)
        state = own or state
        if state == "commands":
            unit.tentative += 1
            return
        counts["commands"] += unit.tentative
        unit.tentative = 0
        counts[state] += 1
