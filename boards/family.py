# SPDX-License-Identifier: Apache-2.0
"""The families of processing systems: what their ports, addresses and FPGAs are.

The facts are those of the manuals UG585 (Zynq-7000) and UG1085 (Zynq UltraScale+), as far as the
Vivado flow uses them: it connects HP ports, which do not see the caches of the processor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_GIB = 1 << 30
_PACKAGE = r"i?-?[a-z]{3,4}\d{3,4}-\w+(-\w+)*"


@dataclass(frozen=True, slots=True)
class Family:
    """A family; `control_ports` have their ranges of addresses, `fpgas` the names that Vivado's
    names of parts begin with.
    """

    address_bits: int
    cpu: str
    memory_ports: tuple[str, ...]
    memory_port_bits: tuple[int, ...]
    control_ports: Mapping[str, tuple[tuple[int, int], ...]]
    interrupts: tuple[str, ...]
    most_dram_bytes: int
    fpgas: Mapping[str, tuple[str, ...]]

    def is_part(self, part: str, fpga: str) -> bool:
        """Whether Vivado's name of a part is that of an FPGA, with package and speed."""
        return any(re.fullmatch(re.escape(device) + _PACKAGE, part) for device in self.fpgas[fpga])


FAMILIES = {
    "zynq7": Family(
        address_bits=32,
        cpu="cortex-a9",
        memory_ports=("S_AXI_HP0", "S_AXI_HP1", "S_AXI_HP2", "S_AXI_HP3"),
        memory_port_bits=(32, 64),
        control_ports={
            "M_AXI_GP0": ((0x4000_0000, 0x8000_0000),),
            "M_AXI_GP1": ((0x8000_0000, 0xC000_0000),),
        },
        interrupts=("IRQ_F2P",),
        most_dram_bytes=_GIB,
        fpgas={name: (name,) for name in ("xc7z010", "xc7z020", "xc7z045")},
    ),
    "zynqmp": Family(
        address_bits=40,
        cpu="cortex-a53",
        memory_ports=("S_AXI_HP0_FPD", "S_AXI_HP1_FPD", "S_AXI_HP2_FPD", "S_AXI_HP3_FPD"),
        memory_port_bits=(32, 64, 128),
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
        fpgas={"zu3eg": ("xczu3eg",), "zu5ev": ("xczu5ev", "xck26"), "zu7ev": ("xczu7ev",)},
    ),
}
"""The families by the name of their processing system."""
