# SPDX-License-Identifier: Apache-2.0
"""The files of a machine with extensions: its package and the slot of its datapaths, which are
generated, the datapaths, and the modules around them.

A machine without extensions is built from the files in `hardware/rtl` as they are: its package of
extensions says that there are none, and the modules around datapaths are in no branch that a tool
elaborates. What the modules between micro-ops and results have for extensions stands between `ifdef
VDLA_EXTENSIONS`, since ports that are always there move the LUTs that Yosys finds for a plain one.
"""

from __future__ import annotations

from pathlib import Path

from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import datapath_units, module_name
from vdla.hardware.generate.extension_datapaths import DATAPATHS, render_datapaths
from vdla.hardware.generate.extension_package import EXTENSION_PACKAGE, render_extension_package
from vdla.hardware.generate.rtl_files import EXTENSION_FOLDER, FOLDER, rtl_files

DEFINE = "VDLA_EXTENSIONS"


def machine_files(config: Config, folder: Path = FOLDER) -> dict[str, str | Path]:
    """The files of a machine but its generated `vdla_pkg.sv`, in the order of reading.

    The path of each that is used as it lies in a folder of the RTL, the text of each that is not.

    ConfigError where an extension has no datapath, or one that cannot be built.
    """
    of_rtl: dict[str, str | Path] = {path.name: path for path in rtl_files(folder)}
    generated = generated_files(config)
    if not generated:
        return of_rtl
    slot = generated.pop(DATAPATHS)
    steps = {path.name: path for path in extension_rtl_files(folder)}
    extended = {path.name: _extended(path) for path in rtl_files(folder) if path.name != EXTENSION_PACKAGE}
    return {**generated, **extended, **steps, DATAPATHS: slot}


def generated_files(config: Config) -> dict[str, str]:
    """The texts of the package of extensions, of the datapaths and of their slot; none without any.

    ConfigError where an extension has no datapath, or one that cannot be built.
    """
    units = datapath_units(config)
    if not units:
        return {}
    datapaths = {f"{module_name(unit)}.sv": unit.datapath.text for unit in units if unit.datapath is not None}
    return {EXTENSION_PACKAGE: render_extension_package(config), **datapaths, DATAPATHS: render_datapaths(config)}


def extension_rtl_files(folder: Path = FOLDER) -> list[Path]:
    """The modules around datapaths."""
    return sorted((folder / EXTENSION_FOLDER).glob("*.sv"))


def _extended(path: Path) -> str | Path:
    """The file with the directive defined, in it alone: another machine may be read after it."""
    text = path.read_text(encoding="utf-8")
    return f"`define {DEFINE}\n{text}`undef {DEFINE}\n" if f"`ifdef {DEFINE}" in text else path


def machine_paths(config: Config, into: Path, folder: Path = FOLDER) -> list[Path]:
    """The same files as paths; those that lie in no folder of the RTL are written `into` one."""
    paths = []
    for name, file in machine_files(config, folder).items():
        if isinstance(file, str):
            (into / name).write_text(file, encoding="utf-8")
        paths.append(file if isinstance(file, Path) else into / name)
    return paths
