# SPDX-License-Identifier: Apache-2.0
"""Memories on the AXI4 ports of a module: any delay on any channel, and errors on request.

The protocol of both sides is checked by axi_read_check and axi_write_check, not by these models.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from helpers.rtl.rtl_bench import Bench

OKAY, SLVERR, DECERR = 0, 2, 3


class Storage:
    """The bytes behind both ports, and the pages that respond with an error."""

    def __init__(self, nbytes: int, axi_bytes: int) -> None:
        self.bytes = np.zeros(nbytes, np.uint8)
        self.axi_bytes = axi_bytes
        self.errors: dict[int, int] = {}

    def beat(self, address: int) -> int:
        """The beat at a byte address; 0 outside the storage."""
        return int.from_bytes(self.bytes[address : address + self.axi_bytes].tobytes(), "little")

    def put(self, address: int, data: int, strobe: int) -> None:
        """Writes the strobed bytes of a beat."""
        for lane, byte in enumerate(data.to_bytes(self.axi_bytes, "little")):
            if strobe >> lane & 1:
                self.bytes[address + lane] = byte

    def response(self, address: int) -> int:
        """The response to an access of this address."""
        return self.errors.get(address // 4096, OKAY)


@dataclass
class Burst:
    """A burst with outstanding beats or response."""

    ident: int
    address: int
    beats: int
    due: int
    done: int = 0
    error: bool = field(default=False)


class ReadMemory:
    """The slave of the read channels; `reorder` lets bursts of different identifiers overtake."""

    def __init__(
        self,
        bench: Bench,
        storage: Storage,
        rng: np.random.Generator,
        ready: Iterator[bool],
        valid: Iterator[bool],
        latency: tuple[int, int] = (1, 20),
        reorder: bool = False,
    ) -> None:
        self.bench, self.storage, self.rng = bench, storage, rng
        self.ready, self.valid, self.latency, self.reorder = ready, valid, latency, reorder
        self.bursts: deque[Burst] = deque()
        self.accepted: list[tuple[int, int, int]] = []
        self.offered: Burst | None = None

    def drive(self) -> None:
        """Offers ready and a beat that is due."""
        bench = self.bench
        bench["m_axi_arready_i"] = next(self.ready)
        if self.offered is None and next(self.valid):
            self.offered = self._choose()
        bench["m_axi_rvalid_i"] = self.offered is not None
        if self.offered is not None:
            self._present(self.offered)

    def _present(self, burst: Burst) -> None:
        bench, address = self.bench, burst.address + burst.done * self.storage.axi_bytes
        bench["m_axi_rid_i"] = burst.ident
        bench["m_axi_rdata_i"] = self.storage.beat(address)
        bench["m_axi_rresp_i"] = self.storage.response(address)
        bench["m_axi_rlast_i"] = burst.done + 1 == burst.beats

    def _choose(self) -> Burst | None:
        oldest = {burst.ident: burst for burst in reversed(self.bursts)}
        candidates = [oldest[i] for i in sorted(oldest)] if self.reorder else list(self.bursts)[:1]
        due = [burst for burst in candidates if burst.due <= self.bench.time]
        return due[self.rng.integers(len(due))] if due else None

    def sample(self) -> None:
        """Accepts an address; notes an accepted beat."""
        bench = self.bench
        if bench["m_axi_arvalid_o"] and bench["m_axi_arready_i"]:
            ident, address, beats = bench["m_axi_arid_o"], bench["m_axi_araddr_o"], bench["m_axi_arlen_o"] + 1
            self.accepted.append((ident, address, beats))
            due = bench.time + int(self.rng.integers(*self.latency))
            self.bursts.append(Burst(ident, address, beats, due))
        if self.offered is not None and bench["m_axi_rready_o"]:
            self.offered.done += 1
            if self.offered.done == self.offered.beats:
                self.bursts.remove(self.offered)
            self.offered = None


class WriteMemory:
    """The slave of the write channels; accepts address or data first by `order`."""

    def __init__(
        self,
        bench: Bench,
        storage: Storage,
        rng: np.random.Generator,
        ready: Iterator[bool],
        data_ready: Iterator[bool],
        latency: tuple[int, int] = (1, 20),
        order: str = "any",
    ) -> None:
        self.bench, self.storage, self.rng = bench, storage, rng
        self.ready, self.data_ready, self.latency, self.order = ready, data_ready, latency, order
        self.addresses: deque[Burst] = deque()
        self.data: deque[list[tuple[int, int]]] = deque()
        self.beats: list[tuple[int, int]] = []
        self.responses: deque[Burst] = deque()
        self.written: list[tuple[int, int]] = []
        self.offered: Burst | None = None

    def drive(self) -> None:
        """Offers ready on both channels and a response that is due."""
        bench = self.bench
        ahead = len(self.addresses) - len(self.data)
        bench["m_axi_awready_i"] = next(self.ready) and (self.order != "data" or ahead < 0)
        bench["m_axi_wready_i"] = next(self.data_ready) and (self.order != "address" or ahead > 0)
        if self.offered is None and self.responses and self.responses[0].due <= bench.time:
            self.offered = self.responses[0]
        bench["m_axi_bvalid_i"] = self.offered is not None
        if self.offered is not None:
            bench["m_axi_bid_i"] = self.offered.ident
            bench["m_axi_bresp_i"] = self.storage.response(self.offered.address)

    def sample(self) -> None:
        """Accepts an address or a beat; notes an accepted response."""
        bench = self.bench
        if bench["m_axi_awvalid_o"] and bench["m_axi_awready_i"]:
            ident, address, beats = bench["m_axi_awid_o"], bench["m_axi_awaddr_o"], bench["m_axi_awlen_o"] + 1
            self.addresses.append(Burst(ident, address, beats, 0))
        if bench["m_axi_wvalid_o"] and bench["m_axi_wready_i"]:
            self.beats.append((bench["m_axi_wdata_o"], bench["m_axi_wstrb_o"]))
            if bench["m_axi_wlast_o"]:
                self.data.append(self.beats)
                self.beats = []
        if self.offered is not None and bench["m_axi_bready_o"]:
            self.responses.popleft()
            self.offered = None
        self._complete()

    def _complete(self) -> None:
        while self.addresses and self.data:
            burst, beats = self.addresses.popleft(), self.data.popleft()
            for index, (data, strobe) in enumerate(beats):
                self.storage.put(burst.address + index * self.storage.axi_bytes, data, strobe)
            self.written.append((burst.address, len(beats)))
            burst.due = self.bench.time + int(self.rng.integers(*self.latency))
            self.responses.append(burst)
