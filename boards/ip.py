# SPDX-License-Identifier: Apache-2.0
"""The names by which a design and its driver find each other: the packaged IP and its parameters.

The invariant: the packaged IP, the hardware handoff file and the driver's `bindto` use these names
and no others.
"""

from __future__ import annotations

from vdla.boards.board import Board
from vdla.hardware.config import Config
from vdla.hardware.generate.registers import RegisterAccess

IP_VENDOR, IP_LIBRARY, IP_NAME, IP_VERSION = "vdla", "accelerator", "vdla", "1.0"
IP_VLNV = f"{IP_VENDOR}:{IP_LIBRARY}:{IP_NAME}:{IP_VERSION}"
"""What `bindto` of the driver matches."""

IP_INSTANCE = "vdla_0"
"""The instance in a block design, the accelerator's name in `ip_dict`."""

CONTROL_INTERFACE = "s_axi_control"
INTERRUPT_PIN = "irq"
INTERRUPT_CONTROLLER = "axi_intc_0"

REGISTER_ACCESS = {
    RegisterAccess.RO: "read-only",
    RegisterAccess.RW: "read-write",
    RegisterAccess.WO: "write-only",
    RegisterAccess.MIXED: "read-write",
}
"""The access of a register, as IP-XACT and handoff files name it."""


def ip_parameters(board: Board, config: Config, build: str) -> dict[str, str]:
    """The parameters of the IP, which the hardware handoff file shows.

    `build` is the hash of the hardware (`build_hash`), as registers BUILD_LO and BUILD_HI show it.
    """
    return {
        "PRESET": config.name,
        "FINGERPRINT": config.fingerprint,
        "BUILD": build,
        "COHERENT": str(int(board.coherent)),
    }
