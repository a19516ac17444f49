# SPDX-License-Identifier: Apache-2.0
"""Several read ports against a model, each on a memory with its own delays and errors."""

from collections import deque
from itertools import chain, repeat

import cocotb
import pytest
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.timing import MERGE_DELAY, PORT_BURSTS
from vdla.verification.programs.random_machines import FOUR_PORTS, TWO_PORTS

REQUESTERS = 3
ADDRESS_BITS = 40
REGISTERED = 1  # from a port to its register


@pytest.mark.rtl
@pytest.mark.parametrize("machine", [TWO_PORTS, FOUR_PORTS], ids=lambda machine: machine.name)
def test_the_read_ports_pass_their_bench(machine):
    simulate("vdla_read_ports", __file__, machine)


class Port:
    """One port and its memory: bursts offered, bursts owed, beats on their way."""

    def __init__(self, machine, rng, ready, valid):
        self.machine, self.rng, self.ready, self.valid = machine, rng, ready, valid
        self.offered = deque()  # (address, beats), at most two
        self.owed = deque()  # port beats of each burst
        self.beats = deque()  # (cycle at the output, data, last, error)
        self.parts = []  # (data, response) of the beat that is not complete
        self.shown = None  # data, response, last at the pins

    def drive(self):
        self.is_ready = next(self.ready)
        if self.shown is None and self.owed and next(self.valid):
            data = int.from_bytes(self.rng.bytes(self.machine.port_bits // 8), "little")
            response = int(self.rng.choice([0, 0, 0, 0, 0, 0, 0, 1, 2, 3]))
            self.shown = data, response, self.owed[0] == 1

    def sample(self, t):
        """The memory accepts an address and delivers a beat of the port."""
        if self.shown is not None:
            self._deliver(*self.shown, t)
            self.shown = None
        if self.is_ready and self.offered:
            self.owed.append(self.offered.popleft()[1] * self.machine.axi_ports)

    def _deliver(self, data, response, last, t):
        self.owed[0] -= 1
        if last:
            self.owed.popleft()
        self.parts.append((data, response))
        if len(self.parts) == self.machine.axi_ports:
            beat = sum(part << self.machine.port_bits * at for at, (part, _) in enumerate(self.parts))
            error = any(response >> 1 for _, response in self.parts)
            self.beats.append((t + REGISTERED + MERGE_DELAY, beat, last, error))
            self.parts = []


class Ports:
    """A model of all ports; checks the module against it in every cycle."""

    def __init__(self, bench, machine, bursts, wish, ports):
        self.bench, self.machine, self.bursts, self.wish, self.ports = bench, machine, deque(bursts), wish, ports
        self.taken = 0
        self.order = deque()  # (port, requester) of each burst, oldest first
        self.most = 0

    def drive(self):
        bits, pins = self.machine.port_bits, dict.fromkeys(("arready", "rvalid", "rdata", "rresp", "rlast"), 0)
        for number, port in enumerate(self.ports):
            port.drive()
            data, response, last = port.shown or (0, 0, 0)
            pins["arready"] |= port.is_ready << number
            pins["rvalid"] |= (port.shown is not None) << number
            pins["rdata"] |= data << bits * number
            pins["rresp"] |= response << 2 * number
            pins["rlast"] |= last << number
        for name, value in pins.items():
            self.bench[f"m_axi_{name}_i"] = value
        wishes = bool(self.bursts) and next(self.wish) and len(self.order) < PORT_BURSTS * len(self.ports)
        self.gives = wishes and len(self.next.offered) < 2
        self.bench["burst_valid_i"] = self.gives
        if self.bursts:
            requester, address, beats = self.bursts[0]
            self.bench["burst_requester_i"] = requester
            self.bench["burst_i"] = address << 8 | beats - 1

    @property
    def next(self):
        return self.ports[self.taken % len(self.ports)]

    def sample(self):
        self._addresses()
        self._beat()
        taker = self.next
        for port in self.ports:
            port.sample(self.bench.time)
        if self.gives:
            requester, address, beats = self.bursts.popleft()
            taker.offered.append((address, beats))
            self.order.append((self.taken % len(self.ports), requester))
            self.taken += 1
            self.most = max(self.most, len(self.order))

    def _addresses(self):
        bench = self.bench
        assert bench["burst_ready_o"] == (len(self.next.offered) < 2)
        assert bench["m_axi_rready_o"] == (1 << len(self.ports)) - 1
        assert bench["m_axi_arid_o"] == 0
        valid, addresses, lengths = (bench[f"m_axi_{name}_o"] for name in ("arvalid", "araddr", "arlen"))
        for number, port in enumerate(self.ports):
            assert valid >> number & 1 == bool(port.offered)
            if port.offered:
                seen = addresses >> ADDRESS_BITS * number & (1 << ADDRESS_BITS) - 1, (lengths >> 8 * number & 255) + 1
                address, beats = port.offered[0]
                assert seen == (address, beats * self.machine.axi_ports)

    def _beat(self):
        """The beats of the oldest burst, each as soon as it can be there."""
        bench = self.bench
        port, requester = self.order[0] if self.order else (0, 0)
        beats = self.ports[port].beats
        if not (self.order and beats and beats[0][0] <= bench.time):
            assert bench["beat_valid_o"] == 0
            return
        _, data, last, error = beats.popleft()
        assert bench["beat_valid_o"] == 1 << requester
        assert [bench[f"beat_{name}_o"] for name in ("data", "last", "error")] == [data, last, error]
        if last:
            self.order.popleft()


def random_bursts(rng, machine, count, least=1):
    """(requester, address, beats) of bursts."""
    beats = rng.integers(least, machine.burst_beats + 1, count)
    addresses = rng.integers(0, (1 << ADDRESS_BITS) // 4096, count) * 4096
    return list(zip(rng.integers(0, REQUESTERS, count).tolist(), addresses.tolist(), beats.tolist(), strict=True))


async def run(bench, model):
    bench.models = [model]
    await bench.reset()
    for _ in range(30_000):
        await bench.cycle()
        if not model.bursts and not model.order:
            return
    raise TimeoutError("every burst must end")


@cocotb.test()
async def beats_come_in_the_order_of_the_bursts(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(40, dut):
        ports = [Port(machine, rng, any_pattern(rng), any_pattern(rng)) for _ in range(machine.axi_ports)]
        bursts = random_bursts(rng, machine, int(rng.integers(1, 60)))
        await run(bench, Ports(bench, machine, bursts, any_pattern(rng), ports))


@cocotb.test()
async def the_buffers_hold_all_bursts_while_one_port_waits(dut):
    """The longest bursts fill the buffers of all ports but one, each in turn."""
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for slow, rng in enumerate(seeds(machine.axi_ports, dut)):
        always = repeat(True)
        ports = [Port(machine, rng, always, always) for _ in range(machine.axi_ports)]
        ports[slow].valid = chain(repeat(False, 1000), always)
        bursts = random_bursts(rng, machine, 100, machine.burst_beats)
        model = Ports(bench, machine, bursts, always, ports)
        await run(bench, model)
        assert model.most == PORT_BURSTS * machine.axi_ports
