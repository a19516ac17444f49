# SPDX-License-Identifier: Apache-2.0
"""Planted faults in loop nests and kernels, judged by certificates and by random runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.random import default_rng

from vdla.benchmarks.certify_nest_faults import (
    KERNEL_KINDS,
    NEST_KINDS,
    cpu_schedules,
    grid_schedules,
    kernel_faults,
    nest_faults,
)
from vdla.benchmarks.fault_counts import FaultCounts, verdict
from vdla.benchmarks.harness import Section
from vdla.compiler import ir
from vdla.compiler.certificates.nest_certificate import Nest, certify_nest
from vdla.compiler.certificates.symbols import CertificateError
from vdla.compiler.interpret import InterpretError, interpret, interpret_kernels
from vdla.compiler.ir import Array, storage_dtype
from vdla.support.progress import Progress, numbered

_FAULTS_OF_NESTS = 8
_FAULTS_OF_KERNELS = 6
_RUNS = 4


def planted_in_nests(progress: Progress, seed: int) -> Section:
    """Faults of every kind in loop nests of CPUs and kernels of GPUs."""
    nests, grids = list(cpu_schedules()), list(grid_schedules())
    step = numbered(progress, len(nests) + len(grids))
    counts = FaultCounts((*NEST_KINDS, *KERNEL_KINDS))
    for number, schedule in enumerate((*nests, *grids)):
        step(f"nest {number + 1} ({schedule.unscheduled.name})")
        rng = default_rng([seed, number])
        faults = (
            nest_faults(schedule, _FAULTS_OF_NESTS, rng)
            if number < len(nests)
            else kernel_faults(schedule, _FAULTS_OF_KERNELS, rng)
        )
        for fault in faults:
            counts.add(fault.kind, judged_nest(fault.nest, schedule.unscheduled, seed))
    figures = {f"nest_{name}": count for name, count in counts.total().items()}
    return Section({**figures, "nest_kinds": counts.kinds}, counts.rows())


def judged_nest(nest: Nest, fn: ir.Function, seed: int) -> str:
    """What the certificate and random runs of a nest say; one that races, leaves its buffers or
    writes too little agrees with nothing.
    """
    agrees: Iterator[bool] = (_agrees(nest, fn, seed + number) for number in range(_RUNS))
    try:
        holds = certify_nest(nest, fn, seed=seed).holds
    except CertificateError:
        holds = False
    return verdict(holds, agrees)


def _agrees(nest: Nest, fn: ir.Function, seed: int) -> bool:
    arrays = _random_inputs(fn, seed)
    expected = interpret(fn, arrays)
    try:
        got = interpret(nest, arrays) if isinstance(nest, ir.Function) else interpret_kernels(nest, arrays, seed)
    except InterpretError:
        return False
    return all(name in got and np.array_equal(expected[name], got[name]) for name in expected)


def _random_inputs(fn: ir.Function, seed: int) -> Mapping[str, Array]:
    """Small integers, sums of which floats have exactly."""
    rng, outputs = default_rng(seed), ir.output_names(fn)
    buffers = [fn.buffers[name] for name in fn.params if name not in outputs]
    return {b.name: rng.integers(-8, 9, b.dims).astype(storage_dtype(b.dtype)) for b in buffers}
