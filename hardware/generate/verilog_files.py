"""All files of a machine for synthesis, in the order in which tools read them: packages, modules,
the Verilog wrapper.
"""

from __future__ import annotations

from vdla.hardware.config import Config
from vdla.hardware.generate.rtl_files import rtl_files
from vdla.hardware.generate.svgen import packages
from vdla.hardware.generate.verilog_wrapper import WRAPPER, render_wrapper


def verilog_files(config: Config, address_bits: int) -> dict[str, str]:
    """The text of every file by name; the wrapper, which is the top, comes last."""
    generated = packages(config)
    sources = {path.name: path.read_text(encoding="utf-8") for path in rtl_files()}
    modules = {name: text for name, text in sources.items() if name not in generated}
    return {**generated, **modules, f"{WRAPPER}.v": render_wrapper(config, address_bits)}
