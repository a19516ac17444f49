# SPDX-License-Identifier: Apache-2.0
"""The hash that identifies a build of the hardware: its sources and its whole configuration.

Registers BUILD_LO and BUILD_HI show it, so that software can tell a bitstream of this release from
one that was built from other sources. DRAM model, clock and name do not change the hardware.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from vdla.hardware.config import Config
from vdla.hardware.generate.extension_files import machine_files
from vdla.hardware.generate.rtl_files import FOLDER
from vdla.hardware.generate.svgen import render_nameless

BUILD_BITS = 48


def build_hash(config: Config, folder: Path = FOLDER) -> str:
    """Twelve hex digits that identify the RTL in a folder as a machine of this configuration."""
    digest = hashlib.sha256(render_nameless(config).encode())
    for name, file in machine_files(config, folder).items():
        content = file.encode() if isinstance(file, str) else file.read_bytes()
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[: BUILD_BITS // 4]
