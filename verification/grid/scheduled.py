# SPDX-License-Identifier: Apache-2.0
"""Random functions under random schedules for a grid: the threads, on a device and in the
interpreter, against the nest in sequence.

A case is a seed. Its primitives may be refused, and so may the kernels, where threads would race or
a buffer would have several owners; what is accepted must compute what the function means.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import Any

from vdla.compiler import ir
from vdla.compiler.arith import scalars_of, specialise
from vdla.compiler.codegen.opencl import emit_opencl
from vdla.compiler.interpret import interpret, interpret_kernels
from vdla.compiler.ir import Array
from vdla.compiler.lowering.check import PassError
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.runtime.grid.opencl_devices import open_opencl, opencl_devices
from vdla.support.progress import Progress
from vdla.verification.fuzz.cases import difference
from vdla.verification.fuzz.functions import FuzzProblem, random_problem
from vdla.verification.fuzz.schedules import ARGUMENTS, Rewrites
from vdla.verification.grid.grid_recipe import schedule_nests
from vdla.verification.isolated_batches import batches_of, run_batches

_SCOPES = ("global", "shared", "local")
_AXES = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.x", "threadIdx.y")
_STEPS, _BINDINGS = 14, 10
_RECIPES = 0.7  # of the cases; others are under any primitives
_BATCH = 25
_NOT_ON_GRIDS = ("parallel", "tensorize", "prefetch", "strips")
_LIMITS = GridLimits("any device", threads=4096, shared_bytes=1 << 20)
_ON_GRIDS: Mapping[str, Callable[[Rewrites], tuple[Any, ...]]] = {
    "bind": lambda r: (r.loop(), r.rng.choice(_AXES)),
    "set_scope": lambda r: (r.buffer(), r.rng.choice(_SCOPES)),
    "cache_read": lambda r: (*ARGUMENTS["cache_read"](r)[:2], r.rng.choice(_SCOPES)),
    "reindex": lambda r: (*ARGUMENTS["reindex"](r)[:2], r.rng.choice(_SCOPES)),
    "cache_write": lambda r: (r.block(), r.rng.choice(_SCOPES)),
    "thread_reduce": lambda r: (r.loop(), r.rng.choice(ir.THREAD_AXES[:2])),
    "atomic": lambda r: (r.block(),),
}
_EVERY = {**{name: given for name, given in ARGUMENTS.items() if name not in _NOT_ON_GRIDS}, **_ON_GRIDS}
_LAST = ("bind", "bind", "bind", "thread_reduce", "compute_at", "set_scope")


@dataclass(slots=True)
class GridCases:
    """What became of cases; `wrong` has a description by seed.

    `died` are the seeds of those in which the device's own compiler ended the process. Those in
    `miscompiled` are wrong on the device, and right if its compiler does not optimise: the same
    source, whose threads race nowhere and read nothing unwritten, as `interpret_kernels` checks.
    """

    cases: int = 0
    refused: int = 0
    several_threads: int = 0
    with_barriers: int = 0
    on_device: int = 0
    died: list[int] = field(default_factory=list)
    miscompiled: dict[int, str] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)

    def add(self, other: GridCases) -> None:
        """Adds other cases."""
        for name in ("cases", "refused", "several_threads", "with_barriers", "on_device", "died"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.miscompiled |= other.miscompiled
        self.wrong |= other.wrong


def grid_cases(progress: Progress, seed: int, count: int, workers: int) -> GridCases:
    """What became of `count` cases, in `workers` processes; 0 runs them in this one."""
    total = GridCases()
    for batch in run_batches(batches_of(seed, count, _BATCH), workers, run_grid_cases, _died):
        total.add(batch)
        progress(f"random schedules: {len(total.wrong)} disagreements", total.cases + total.refused, count)
    return total


def run_grid_cases(seeds: Sequence[int]) -> GridCases:
    """Some cases, in sequence."""
    total, device = GridCases(), bool(opencl_devices())
    with TemporaryDirectory() as folder, chdir(folder):  # drivers that fail leave files
        for seed in seeds:
            total.add(run_grid_case(seed, device=device))
    return total


def _died(seed: int) -> GridCases:
    """The outcome of a case that killed its process: that of its threads, without the device."""
    return replace(run_grid_case(seed, device=False), died=[seed])


def run_grid_case(seed: int, *, device: bool) -> GridCases:
    """One case; `device` runs it on an OpenCL device too."""
    problem, chance = _numbers(random_problem(seed)), random.Random(seed)
    try:
        schedule = _scheduled(problem, chance)
        kernels = lower_kernels(schedule.fn, replace(_LIMITS, warp=chance.choice((1, 2, 4))))
    except PassError:
        return GridCases(refused=1)
    except Exception as error:
        return GridCases(1, wrong={seed: f"{type(error).__name__}: {error}"})
    result = GridCases(1, on_device=int(device))
    result.several_threads = int(any(kernel.threads > 1 for kernel in kernels))
    result.with_barriers = int(any(isinstance(s, ir.Barrier) for kernel in kernels for s in ir.walk(kernel.body)))
    expected = interpret(problem.fn, problem.arrays)
    if fault := _fault(expected, lambda: interpret_kernels(kernels, problem.arrays, seed), problem):
        result.wrong[seed] = fault
    elif device and (fault := _fault(expected, lambda: _on_device(problem, schedule.fn), problem)):
        plain = _fault(expected, lambda: _on_device(problem, schedule.fn, optimised=False), problem)
        (result.wrong if plain else result.miscompiled)[seed] = fault
    return result


def _numbers(problem: FuzzProblem) -> FuzzProblem:
    """The problem without symbolic extents."""
    if not problem.fn.scalars:
        return problem
    shapes = {name: array.shape for name, array in problem.arrays.items()}
    return replace(problem, fn=specialise(problem.fn, scalars_of(problem.fn, shapes)))


def _scheduled(problem: FuzzProblem, chance: random.Random) -> Schedule:
    """The function under random primitives, loops bound to a grid at last."""
    rewrites = Rewrites(chance, Schedule(problem.fn), Counter(), Counter())
    if chance.random() < _RECIPES:
        schedule_nests(rewrites)
        for _ in range(chance.choice((0, 0, 1, 3))):
            rewrites.attempt(name := chance.choice(tuple(_EVERY)), _EVERY[name](rewrites))
        return rewrites.schedule
    for name in (*chance.choices(tuple(_EVERY), k=_STEPS), *chance.choices(_LAST, k=_BINDINGS)):
        rewrites.attempt(name, _EVERY[name](rewrites))
    return rewrites.schedule


def _on_device(problem: FuzzProblem, scheduled: ir.Function, *, optimised: bool = True) -> Mapping[str, Array]:
    """The outputs of the first OpenCL device."""
    device = replace(open_opencl(), optimises=optimised)
    kernel = DeviceKernel(emit_opencl(scheduled, device.limits), device)
    outputs = kernel(*(problem.arrays[name] for name in scheduled.params if name in problem.arrays))
    names = [argument.name for argument in kernel.signature.outputs]
    return dict(zip(names, outputs if isinstance(outputs, tuple) else (outputs,), strict=True))


def _fault(expected: Mapping[str, Array], run: Callable[[], Mapping[str, Array]], problem: FuzzProblem) -> str:
    """What is wrong with a run; empty if nothing is."""
    try:
        return difference(expected, run(), problem.rough)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
