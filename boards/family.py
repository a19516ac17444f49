# SPDX-License-Identifier: Apache-2.0
"""The families of processing systems: what their ports, addresses and FPGAs are.

The facts are those of the manuals UG585 (Zynq-7000) and UG1085 (Zynq UltraScale+), packages and
speed grades those of DS190 and DS891, as far as the Vivado flow uses them: it connects HP ports,
which do not see the caches of the processor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Family:
    """A family.

    `control_ports` have their ranges of addresses, `most_clock_mhz` the fastest clock that the
    processing system gives the fabric. `fpgas` have the names that Vivado's names of parts begin
    with, and the packages of each; `speeds` are what ends the name, a regular expression.
    """

    address_bits: int
    cpu: str
    memory_ports: tuple[str, ...]
    memory_port_bits: tuple[int, ...]
    memory_protocol: str
    control_ports: Mapping[str, tuple[tuple[int, int], ...]]
    interrupts: tuple[str, ...]
    most_dram_bytes: int
    most_clock_mhz: float
    fpgas: Mapping[str, Mapping[str, tuple[str, ...]]]
    speeds: str

    def is_part(self, part: str, fpga: str) -> bool:
        """Whether Vivado's name of a part is that of an FPGA, with a package and a speed grade."""
        return any(
            re.fullmatch(f"{device}(i?|-){package}-{self.speeds}", part)
            for device, packages in self.fpgas[fpga].items()
            for package in packages
        )

    def packages(self, fpga: str) -> str:
        """The devices of an FPGA, each with its packages, for a message."""
        return " or ".join(f"{device} in {', '.join(names)}" for device, names in self.fpgas[fpga].items())


FAMILIES = {
    "zynq7": Family(
        address_bits=32,
        cpu="cortex-a9",
        memory_ports=("S_AXI_HP0", "S_AXI_HP1", "S_AXI_HP2", "S_AXI_HP3"),
        memory_port_bits=(32, 64),
        memory_protocol="AXI3",
        control_ports={
            "M_AXI_GP0": ((0x4000_0000, 0x8000_0000),),
            "M_AXI_GP1": ((0x8000_0000, 0xC000_0000),),
        },
        interrupts=("IRQ_F2P",),
        most_dram_bytes=_GIB,
        most_clock_mhz=250,
        fpgas={
            "xc7z010": {"xc7z010": ("clg225", "clg400")},
            "xc7z020": {"xc7z020": ("clg400", "clg484")},
            "xc7z045": {"xc7z045": ("fbg676", "ffg676", "ffg900")},
        },
        speeds="(1|2|3|1L|2L)",
    ),
    "zynqmp": Family(
        address_bits=40,
        cpu="cortex-a53",
        memory_ports=("S_AXI_HP0_FPD", "S_AXI_HP1_FPD", "S_AXI_HP2_FPD", "S_AXI_HP3_FPD"),
        memory_port_bits=(32, 64, 128),
        memory_protocol="AXI4",
        control_ports={
            "M_AXI_HPM0_FPD": (
                (0xA000_0000, 0xB000_0000),
                (0x4_0000_0000, 0x5_0000_0000),
                (0x10_0000_0000, 0x48_0000_0000),
            ),
            "M_AXI_HPM1_FPD": (
                (0xB000_0000, 0xC000_0000),
                (0x5_0000_0000, 0x6_0000_0000),
                (0x48_0000_0000, 0x80_0000_0000),
            ),
        },
        interrupts=("pl_ps_irq0",),
        most_dram_bytes=34 * _GIB,
        most_clock_mhz=333.334,
        fpgas={
            "zu3eg": {"xczu3eg": ("sbva484", "sfva625", "sfvc784")},
            "zu5ev": {"xczu5ev": ("sfvc784", "fbvb900"), "xck26": ("sfvc784",)},
            "zu7ev": {"xczu7ev": ("fbvb900", "ffvc1156", "ffvf1517")},
        },
        speeds="(1-e|1-i|1L-i|1LV-i|2-e|2-i|2L-e|2LV-e|2LV-c|2LVI-i|3-e)",
    ),
}
"""The families by the name of their processing system."""
