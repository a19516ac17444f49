# SPDX-License-Identifier: Apache-2.0
"""The model of the DRAM; docs/timing-contract.md says how its figures combine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import ceil

from vdla.hardware.checks import ConfigError, require_integer
from vdla.support.integers import fields_to_python
from vdla.support.keywords import checked_keywords
from vdla.support.suggest import did_you_mean

_PORT_LIMITS = {
    "read_latency": (1, 65536),
    "write_latency": (1, 65536),
    "outstanding_reads": (1, 256),
    "outstanding_writes": (1, 256),
    "beat_cycles": (1, 256),
    "burst_gap": (0, 256),
}
PORT_FIELDS = tuple(_PORT_LIMITS)
_PAGE_LIMITS = {
    "bus_bytes": (1, 4096),
    "banks": (1, 256),
    "page_bytes": (512, 65536),
    "page_miss": (0, 1024),
    "refresh_interval": (0, 1 << 24),
    "refresh_cycles": (0, 1 << 16),
    "turnaround": (0, 1024),
}


@checked_keywords(ConfigError)
@dataclass(frozen=True, slots=True, repr=False)
class Dram:
    """Latencies and gaps in cycles of the accelerator's clock; outstanding requests in bursts.

    `bus_bytes` above 0 adds a model of the memory behind the ports: it moves that many bytes a
    cycle, in `banks` with one open page of `page_bytes` each, opens another page in `page_miss`
    cycles, is refreshed for `refresh_cycles` every `refresh_interval` (0: never), and turns from
    reads to writes and back in `turnaround` cycles. `with_part` has those of known memories.
    """

    read_latency: int = 80
    write_latency: int = 40
    outstanding_reads: int = 8
    outstanding_writes: int = 8
    beat_cycles: int = 1
    burst_gap: int = 0
    bus_bytes: int = 0
    banks: int = 0
    page_bytes: int = 0
    page_miss: int = 0
    refresh_interval: int = 0
    refresh_cycles: int = 0
    turnaround: int = 0

    def __post_init__(self) -> None:
        fields_to_python(self)
        for name, (low, high) in _PORT_LIMITS.items():
            require_integer("config dram", name, getattr(self, name), low, high)
        if self.bus_bytes != 0:
            self._check_pages()
            return
        for name in _PAGE_LIMITS:
            if getattr(self, name) != 0:
                raise ConfigError(
                    f"config dram: {name} must be 0 where bus_bytes is 0, got {getattr(self, name)!r} "
                    "(pages, refresh and turnaround need bus_bytes, the bytes that the memory moves in a cycle)"
                )

    def _check_pages(self) -> None:
        for name, (low, high) in _PAGE_LIMITS.items():
            require_integer("config dram", name, getattr(self, name), low, high)
        if self.page_bytes & (self.page_bytes - 1):
            raise ConfigError(f"config dram: page_bytes must be a power of two, got {self.page_bytes}")
        if self.refresh_cycles and self.refresh_interval <= self.refresh_cycles:
            raise ConfigError(
                f"config dram: refresh_interval must be longer than the {self.refresh_cycles} refresh_cycles, "
                f"got {self.refresh_interval}"
            )

    def __repr__(self) -> str:
        return f"Dram({', '.join(f'{name}={value}' for name, value in self.to_dict().items())})"

    def to_dict(self) -> dict[str, int]:
        """The fields; without those of pages where the model has none."""
        values: dict[str, int] = asdict(self)
        return values if self.bus_bytes else {name: values[name] for name in PORT_FIELDS}

    def with_part(self, part: str, clock_mhz: float) -> Dram:
        """The same ports before a memory of PARTS, on a machine with this clock in MHz."""
        if not isinstance(part, str) or part not in PARTS:
            raise ConfigError(
                f"config dram: part must be one of {', '.join(PARTS)}, got {part}{did_you_mean(str(part), PARTS)}"
            )
        memory = PARTS[part]
        cycles = {name: ceil(time * clock_mhz / 1000) for name, time in memory.times_ns.items()}
        cycles["refresh_interval"] = int(_REFRESH_INTERVAL_NS * clock_mhz / 1000)
        return replace(
            self,
            bus_bytes=max(1, int(memory.mega_transfers * memory.bytes / clock_mhz)),
            banks=memory.banks,
            page_bytes=memory.page_bytes,
            **cycles,
        )


# --- known memories -------------------------------------------------------------------------------

_REFRESH_INTERVAL_NS = 7800
"""tREFI of both standards below 85 degrees Celsius."""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A memory: millions of transfers a second of so many bytes, banks, the bytes of a page in all
    chips together, and times in ns by the field of `Dram` that they become.
    """

    mega_transfers: int
    bytes: int
    banks: int
    page_bytes: int
    times_ns: dict[str, float]


_DDR3 = {"page_miss": 27.5, "refresh_cycles": 260, "turnaround": 7.5}
"""tRP + tRCD, tRFC of 4 Gbit, tWTR of DDR3-1600, Micron's data sheet of the MT41K256M16."""

_DDR4 = {"page_miss": 28.32, "refresh_cycles": 350, "turnaround": 7.5}
"""tRP + tRCD, tRFC of 8 Gbit, tWTR_L of DDR4-2400 CL17, Micron's data sheet of the MT40A512M16."""

PARTS = {
    "ddr3-1050-x16": MemoryPart(1050, 2, 8, 2048, _DDR3),
    "ddr3-1050-x32": MemoryPart(1050, 4, 8, 4096, _DDR3),
    "ddr4-2400-x64": MemoryPart(2400, 8, 8, 8192, _DDR4),
}
"""Chips of 16 bits with pages of 2 KiB: one (PYNQ-Z1 and PYNQ-Z2, by the board's manual), two, and
four (the Kria K26, DS987). A chip of DDR4 has two groups of four banks.
"""
