"""The files of a machine with extensions: modules of the RTL in the form that has them, the
generated package and slot, and the datapaths.

A machine without extensions is built from the files in `hardware/rtl` as they are. What its modules
have for extensions stands between `ifdef VDLA_EXTENSIONS`, so that tools read, and synthesise, what
they would without it.
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
    of_rtl = {path.name: path for path in rtl_files(folder)}
    units = datapath_units(config)
    if not units:
        return dict(of_rtl)
    package = render_extension_package(config)
    datapaths = {f"{module_name(unit)}.sv": unit.datapath.text for unit in units if unit.datapath is not None}
    steps = {path.name: path for path in sorted((folder / EXTENSION_FOLDER).glob("*.sv"))}
    extended = {name: _extended(path) for name, path in of_rtl.items()}
    return {EXTENSION_PACKAGE: package, **datapaths, **extended, **steps, DATAPATHS: render_datapaths(config)}


def _extended(path: Path) -> str | Path:
    text = path.read_text(encoding="utf-8")
    return f"`define {DEFINE}\n{text}" if f"`ifdef {DEFINE}" in text else path


def machine_paths(config: Config, into: Path, folder: Path = FOLDER) -> list[Path]:
    """The same files as paths; those that lie in no folder of the RTL are written `into` one."""
    paths = []
    for name, file in machine_files(config, folder).items():
        if isinstance(file, str):
            (into / name).write_text(file, encoding="utf-8")
        paths.append(file if isinstance(file, Path) else into / name)
    return paths
