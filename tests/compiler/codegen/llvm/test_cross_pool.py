# SPDX-License-Identifier: Apache-2.0
"""The thread pool in C programs, native and under QEMU: nesting, threads, forks, limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import native_modules
from helpers.native_programs import program, run, toolchain

from vdla.compiler.codegen.llvm import NativeObject, compile_module
from vdla.compiler.target import Target

HERE = Path(__file__).parent
THREADS = """
#include "axpy.h"
#include <stdio.h>
int main(void) {
    printf("%d", (int)vdla_threads());
    vdla_set_threads(3);
    printf(" %d", (int)vdla_threads());
    vdla_set_threads(-1);
    printf(" %d", (int)vdla_threads());
    vdla_set_threads(1000000);
    printf(" %d\\n", (int)vdla_threads());
    return 0;
}
"""


def kernel(target: str) -> NativeObject:
    signature = native_modules.STATIC
    return compile_module(
        native_modules.module(signature, parallel=True), signature, Target.named(target), cached=False
    )


@pytest.mark.parametrize("target", ["host", "cortex-a9", "aarch64"])
def test_every_iteration_runs_once_from_any_caller(target: str, tmp_path: Path) -> None:
    toolchain(target)
    command = program(tmp_path, target, [kernel(target)], (HERE / "pool_checks.c").read_text())
    forks = ["forks"] if target == "host" else []
    for _ in range(3):
        assert run([*command, *forks]) == "fine\n"


@pytest.mark.parametrize("target", ["host", "cortex-a9"])
def test_the_environment_and_set_threads_limit_the_threads(target: str, tmp_path: Path) -> None:
    toolchain(target)
    command = program(tmp_path, target, [kernel(target)], THREADS)
    assert run(command, VDLA_THREADS="5") == "5 3 5 256\n"
    assert run(command, VDLA_THREADS="1") == "1 3 1 256\n"
    for many in ("999", "2147483648", "4294967297", "9" * 30):
        assert run(command, VDLA_THREADS=many) == "256 3 256 256\n"


@pytest.mark.parametrize("nonsense", ["", "0", "-2", "many"])
def test_an_invalid_environment_variable_is_ignored(nonsense: str, tmp_path: Path) -> None:
    command = program(tmp_path, "host", [kernel("host")], THREADS)
    processors = len(os.sched_getaffinity(0))
    assert run(command, VDLA_THREADS=nonsense) == f"{processors} 3 {processors} 256\n"
    assert run(["taskset", "-c", "0", *command], VDLA_THREADS=nonsense) == "1 3 1 256\n"
