# SPDX-License-Identifier: Apache-2.0
"""Synthesis of a configuration's RTL by Yosys, without vendor tools: cells by unit and the longest
paths.

Units keep their boundaries, so each cell belongs to one unit; a unit is flattened and optimised as
a whole. Results are cached in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vdla.hardware.config import Config
from vdla.hardware.fpga.delays import DELAYS
from vdla.hardware.fpga.logic_path import LogicPath, PathReport, longest_paths
from vdla.hardware.fpga.parts import FpgaPart
from vdla.hardware.fpga.yosys import YosysError, run_yosys, yosys_version
from vdla.hardware.generate.datapath_ports import datapath_units, module_name, uses_array
from vdla.hardware.generate.extension_files import machine_files
from vdla.hardware.generate.rtl_files import PACKAGE, TOP
from vdla.hardware.generate.svgen import render_nameless
from vdla.support.atomic import write_text
from vdla.support.cache import CacheError, locked, user_cache
from vdla.support.progress import Progress

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

UNITS = (
    "vdla_registers", "vdla_control", "vdla_counters", "vdla_fetch", "vdla_read_arbiter", "vdla_load", "vdla_store",
    "vdla_compute", "vdla_load_engine", "vdla_sequencer", "vdla_uop_buffer", "vdla_inp_buffer", "vdla_wgt_buffer",
    "vdla_gemm_core", "vdla_accumulator", "vdla_emit", "vdla_scl_buffer", "vdla_requantise", "vdla_out_buffer",
)  # fmt: skip
"""The units: modules that keep their boundaries, while those below are flattened into them; the
datapaths of extensions are units as well.
"""

CORE, LENT_ARRAY = "vdla_gemm_core", "vdla_ext_array"
"""The unit with the array of multipliers, and the one that has it where datapaths use it."""

COPY = "vdla_copy"
"""The module that keeps its boundary inside of a unit: a register that no tool may merge."""

STAGES = (
    "begin", "prepare", "map_dsp", "coarse", "map_memory", "map_ffram", "fine", "map_cells", "map_ffs", "map_luts",
)  # fmt: skip
"""Labels of Yosys's `synth_xilinx`, where stages begin; MAP_LUTS replaces the last."""

MAP_LUTS = (
    "opt_expr -mux_undef -noclkinv",
    "abc -luts 2:2,3,6:5,10,20",
    "clean",
    "xilinx_srl -fixed -minlen 3",
    "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6",
    "xilinx_dffopt",
    "opt_lut_ins -tech xilinx",
    "clean",
)
"""The last stage of `synth_xilinx`, with abc as abc9 crashes on the top (Yosys 0.70)."""

VENDOR_CELLS = Path(__file__).resolve().parent / "dsp48e1.sv"
"""The declaration of the cell that the RTL instantiates."""

MODEL = tuple(Path(__file__).with_name(name) for name in ("cells.py", "delays.py", "logic_path.py"))
"""The model of delays, on which a cached result depends."""

MARK = "vdla-stage:"

Result = TypeVar("Result", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class ModuleCells:
    """The number of cells of each type in a unit, without the units below it."""

    path: str
    module: str
    cells: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The result of Yosys for a configuration and a family of parts."""

    family: str
    yosys: str
    units: tuple[ModuleCells, ...]
    paths: PathReport


def synthesise(config: Config, part: FpgaPart, progress: Progress) -> Synthesis:
    """The synthesis of a configuration, from the cache or in about `usual_seconds`."""
    version = yosys_version()

    def run(folder: Path) -> Synthesis:
        return _run(config, part, version, folder, progress)

    return cached_run(_cache_path(config, part, version), _from_json, run)


def cached_synthesis(config: Config, part: FpgaPart) -> Synthesis | None:
    """The synthesis of a configuration if an earlier run has left it; YosysError without Yosys."""
    return _load(_cache_path(config, part, yosys_version()), _from_json)


def usual_seconds(config: Config) -> int:
    """Usual time of a synthesis on a PC, without the one-off compilation of Yosys."""
    return 10 * round(3 + 0.01 * config.macs_per_cycle)


# --- the cache -----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """The folder of cached results."""
    try:
        return user_cache("area")
    except CacheError as error:
        raise YosysError(f"area: {error}") from None


def cache_path(texts: Sequence[str], files: Mapping[str, str | Path]) -> Path:
    """The file of the result of texts (a package, a script, a version) and of sources."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    for name, file in files.items():
        digest.update(name.encode() + b"\0" + _content(file) + b"\0")
    return cache_folder() / f"{digest.hexdigest()[:24]}.json"


def cached_run(path: Path, from_json: Callable[[Mapping[str, Any]], Result], run: Callable[[Path], Result]) -> Result:
    """The result in a file of the cache, or of a run in a folder of its own, then stored there; of
    several processes one runs and the others wait.
    """
    cached = _load(path, from_json)
    if cached is not None:
        return cached
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
        except CacheError as error:
            raise YosysError(f"area: {error}") from None
        except OSError as error:
            raise YosysError(f"area: cache must be writable, got {error}") from None
        return _load(path, from_json) or _stored(path, run)


def _stored(path: Path, run: Callable[[Path], Result]) -> Result:
    with tempfile.TemporaryDirectory(prefix="vdla-area-") as folder:
        result = run(Path(folder))
    try:
        write_text(path, json.dumps(asdict(result)))
    except OSError as error:
        raise YosysError(f"area: cache must be writable, got {error}") from None
    return result


def _cache_path(config: Config, part: FpgaPart, version: str) -> Path:
    files = {**machine_files(config), **{path.name: path for path in (VENDOR_CELLS, *MODEL)}}
    return cache_path((render_nameless(config), script(config, part), version), files)


def _content(file: str | Path) -> bytes:
    return file.encode() if isinstance(file, str) else file.read_bytes()


def _load(path: Path, from_json: Callable[[Mapping[str, Any]], Result]) -> Result | None:
    """The cached result; None if it is missing or damaged."""
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _from_json(document: Mapping[str, Any]) -> Synthesis:
    units = tuple(ModuleCells(**unit) for unit in document["units"])
    stored = document["paths"]
    paths = PathReport(
        {clocks: _paths(rows) for clocks, rows in stored["paths"].items()},
        _paths(stored["inputs"]),
        _paths(stored["outputs"]),
        stored["period_ns"],
    )
    return Synthesis(document["family"], document["yosys"], units, paths)


def _paths(rows: Sequence[Mapping[str, Any]]) -> tuple[LogicPath, ...]:
    return tuple(LogicPath(**{**path, "cells": tuple(path["cells"])}) for path in rows)


# --- Yosys ---------------------------------------------------------------------------------------


def sources(config: Config) -> dict[str, str | Path]:
    """The SystemVerilog of a machine by file name, whatever its name: texts and paths."""
    return {PACKAGE: render_nameless(config), **machine_files(config)}


def write_files(folder: Path, files: Mapping[str, str | Path]) -> None:
    """Writes texts and copies of files into the folder of a run."""
    for name, file in files.items():
        (folder / name).write_bytes(_content(file))


def keep_units(config: Config) -> list[str]:
    """The commands by which the units of a machine keep their boundaries."""
    units = [LENT_ARRAY if unit == CORE and uses_array(config) else unit for unit in UNITS]
    return [f"setattr -mod -set keep_hierarchy 1 {unit}$*" for unit in (*units, COPY, *_datapaths(config))]


def _datapaths(config: Config) -> list[str]:
    return [module_name(unit) for unit in datapath_units(config)]


def each_stage(mark: str, total: int, progress: Progress) -> Callable[[str], None]:
    """The reader of Yosys's lines that reports those that begin with `mark`."""
    stages = count(1)

    def each_line(line: str) -> None:
        if line.startswith(mark):
            progress(line.removeprefix(mark).strip(), next(stages), total)

    return each_line


def script(config: Config, part: FpgaPart) -> str:
    """The Yosys script, for a folder with the sources."""
    names = " ".join([*sources(config), VENDOR_CELLS.name])
    options = f"-family {part.family} -flatten -noiopad -noclkbuf -top {TOP}" + (" -uram" if part.uram else "")
    defines = "-D SYNTHESIS" + (" -D VDLA_ULTRA_RAM" if part.uram else "")
    lines = [
        f"log {MARK} read",
        f"read_slang --threads 1 --keep-hierarchy --top {TOP} {defines} {names}",
        f"hierarchy -check -top {TOP}",
        *keep_units(config),
    ]
    for stage, end in pairwise(STAGES):
        lines += [f"log {MARK} {stage}", f"synth_xilinx {options} -run {stage}:{end}"]
    lines += [
        f"log {MARK} {STAGES[-1]}",
        *MAP_LUTS,
        "tee -q -o stat.json stat -json",
        f"log {MARK} longest paths",
        *(
            f"setattr -mod -unset keep_hierarchy {name}"
            for name in (f"{TOP}_*", *(f"{unit}$*" for unit in _datapaths(config)))
        ),
        "flatten",
        "opt_clean",
        f"select {TOP}",
        "write_json -noscopeinfo -selected netlist.json",
    ]
    return "\n".join(lines) + "\n"


def _run(config: Config, part: FpgaPart, version: str, folder: Path, progress: Progress) -> Synthesis:
    write_files(folder, sources(config) | {VENDOR_CELLS.name: VENDOR_CELLS})
    total = len(STAGES) + 2
    start = f"start Yosys, about {usual_seconds(config)} s in total; its first start takes about 2 minutes more"
    progress(start, 0, total)
    run_yosys(folder, script(config, part), each_stage(MARK, total, progress))
    units = units_of(json.loads((folder / "stat.json").read_text(encoding="utf-8")))
    netlist = json.loads((folder / "netlist.json").read_text(encoding="utf-8"))
    return Synthesis(part.family, version, units, longest_paths(netlist["modules"][TOP], DELAYS[part.family]))


def units_of(statistics: Mapping[str, Any]) -> tuple[ModuleCells, ...]:
    """The units of the statistics, in which slang names each instance MODULE$PATH; a copy counts in
    the unit that it is in.
    """
    kinds: dict[str, str] = {}
    cells: dict[str, Counter[str]] = {}
    modules = {name.removeprefix("\\") for name in statistics["modules"]}
    for name, module in statistics["modules"].items():
        kind, _, path = name.removeprefix("\\").partition("$")
        kinds[path or TOP] = kind
        cells[path or TOP] = Counter(
            {cell: count for cell, count in module["num_cells_by_type"].items() if cell not in modules}
        )
    for path in [path for path, kind in kinds.items() if kind == COPY]:
        unit = path
        while kinds.get(unit, COPY) == COPY:
            unit = unit.rpartition(".")[0]
        cells[unit] += cells.pop(path)
    return tuple(ModuleCells(path, kinds[path], dict(usage)) for path, usage in sorted(cells.items()))
