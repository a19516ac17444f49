# SPDX-License-Identifier: Apache-2.0
"""An AXI4-Lite master: reads and writes, address and data in any order, with any delay."""

from __future__ import annotations

import numpy as np

from helpers.rtl.rtl_bench import Bench

OKAY, SLVERR = 0, 2
TIMEOUT_CYCLES = 1000


class AxiLite:
    """`await axil.write(offset, value)` writes a register, `await axil.read(offset)` reads one."""

    def __init__(self, bench: Bench, rng: np.random.Generator, most_delay: int = 0) -> None:
        self.bench, self.rng, self.most_delay = bench, rng, most_delay

    def _delay(self) -> int:
        return int(self.rng.integers(0, self.most_delay + 1))

    async def write(self, offset: int, value: int, strobe: int = 0xF) -> int:
        """Writes a register; returns the response."""
        bench = self.bench
        address_at, data_at, response_at = self._delay(), self._delay(), self._delay()
        address_done = data_done = False
        for cycle in range(TIMEOUT_CYCLES):
            bench["s_axil_awvalid_i"] = address = not address_done and cycle >= address_at
            bench["s_axil_awaddr_i"] = offset if address else 0
            bench["s_axil_wvalid_i"] = data = not data_done and cycle >= data_at
            bench["s_axil_wdata_i"] = value if data else 0
            bench["s_axil_wstrb_i"] = strobe if data else 0
            bench["s_axil_bready_i"] = ready = cycle >= response_at
            await bench.cycle()
            address_done |= address and bool(bench["s_axil_awready_o"])
            data_done |= data and bool(bench["s_axil_wready_o"])
            if ready and bench["s_axil_bvalid_o"]:
                assert address_done and data_done, "a response must follow its address and its data"
                response = bench["s_axil_bresp_o"]
                bench["s_axil_bready_i"] = bench["s_axil_awvalid_i"] = bench["s_axil_wvalid_i"] = 0
                return response
        raise TimeoutError(f"write of {offset:#x} must be answered within {TIMEOUT_CYCLES} cycles")

    async def read(self, offset: int) -> tuple[int, int]:
        """Reads a register; returns its value and the response."""
        bench = self.bench
        address_at, response_at = self._delay(), self._delay()
        address_done = False
        for cycle in range(TIMEOUT_CYCLES):
            bench["s_axil_arvalid_i"] = address = not address_done and cycle >= address_at
            bench["s_axil_araddr_i"] = offset if address else 0
            bench["s_axil_rready_i"] = ready = cycle >= response_at
            await bench.cycle()
            address_done |= address and bool(bench["s_axil_arready_o"])
            if ready and bench["s_axil_rvalid_o"]:
                assert address_done, "a response must follow its address"
                result = bench["s_axil_rdata_o"], bench["s_axil_rresp_o"]
                bench["s_axil_rready_i"] = bench["s_axil_arvalid_i"] = 0
                return result
        raise TimeoutError(f"read of {offset:#x} must be answered within {TIMEOUT_CYCLES} cycles")
