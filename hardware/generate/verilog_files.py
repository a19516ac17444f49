# SPDX-License-Identifier: Apache-2.0
"""All files of a machine for synthesis, in the order in which tools read them: packages, modules,
the Verilog wrapper.
"""

from __future__ import annotations

from vdla.hardware.config import Config
from vdla.hardware.generate.extension_files import machine_files
from vdla.hardware.generate.svgen import packages
from vdla.hardware.generate.verilog_wrapper import WRAPPER, render_wrapper


def verilog_files(config: Config, address_bits: int) -> dict[str, str]:
    """The text of every file by name; the wrapper, which is the top, comes last."""
    generated = packages(config)
    files = machine_files(config)
    sources = {
        name: file if isinstance(file, str) else file.read_text(encoding="utf-8") for name, file in files.items()
    }
    modules = {name: text for name, text in sources.items() if name not in generated}
    return {**generated, **modules, f"{WRAPPER}.v": render_wrapper(config, address_bits)}
