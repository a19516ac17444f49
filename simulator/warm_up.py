# SPDX-License-Identifier: Apache-2.0
"""Compiles the simulator's kernels before their first use, each part in a process of its own.

    warming = warm_up()  # returns at once
    ...                  # compile a program meanwhile
    warming.wait()

Machine code is cached on disk, so only the first run after an installation compiles; of several
processes that need a part one compiles it and the others wait. A part whose process fails is
compiled at its first use, which reports the error.
"""

from __future__ import annotations

import gc
import multiprocessing
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Gemm, Instruction, Load, Operand, Vector, VectorOp, instruction_columns
from vdla.simulator.function import dot_unit, execute, kernels, kernels_stream
from vdla.simulator.timing import event_loop, time_columns
from vdla.support.cache import CacheError, locked, user_cache

USUAL = ("timing", "function")
PARTS = USUAL if dot_unit.available() else (*USUAL, "vector")  # else one loop has both
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The compiling processes; none where everything is on disk."""

    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def wait(self, timeout_s: float = _TIMEOUT_S) -> None:
        """Wait for the processes; one that takes longer than the timeout is killed."""
        for process in self.processes:
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def warm_up(parts: Sequence[str] = USUAL) -> WarmUp:
    """Start compiling the parts that are not on disk."""
    command = [sys.executable, "-m", "vdla.simulator.warm_up"]
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    return WarmUp([subprocess.Popen([*command, part], **silent) for part in parts if not is_warm(part)])


def is_warm(part: str) -> bool:
    """Whether the machine code of a part is on disk."""
    entries: dict[str, tuple[Any, ...]] = {
        "timing": (event_loop.run,),
        "function": (kernels_stream.run,) if dot_unit.available() else (kernels.extents, kernels.gemm),
        "vector": (kernels_stream.run,) if dot_unit.available() else (kernels.extents, kernels.vector),
    }
    try:
        return all(bool(entry._cache._cache_file._load_index()) for entry in entries[part])
    except (AttributeError, OSError):
        return False


def prepare(part: str) -> None:
    """Compile a part that is not on disk, or wait for the process that compiles it."""
    if is_warm(part):
        return
    try:
        with locked(user_cache("simulator") / part, _TIMEOUT_S):
            if not is_warm(part):
                compile_part(part)
    except (CacheError, OSError):  # no cache folder, or a process that hangs: at the first use
        return


def compile_part(part: str) -> None:
    """Run a minimal program that needs all kernels of a part."""
    config = Config.preset("pynq_z1")
    load, gemm = Load(Buffer.INP), Gemm()
    programs: dict[str, list[Instruction]] = {
        "timing": [load, gemm],
        "function": [load, gemm],
        "vector": [Vector(VectorOp.MOV, Operand.IMM)],
    }
    columns = instruction_columns(config, programs[part])
    if part == "timing":
        time_columns(config, columns, 0)
    else:
        execute(config, columns, np.zeros(4096, np.uint8))


def prepare_each(parts: Sequence[str]) -> None:
    """Prepare parts beside each other, in processes that share what this one has imported."""
    gc.disable()  # the compiler frees little before it ends, and its objects are many
    processes = [multiprocessing.get_context("fork").Process(target=prepare, args=(part,)) for part in parts]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    prepare_each(sys.argv[1:] or PARTS)
