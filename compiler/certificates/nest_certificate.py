# SPDX-License-Identifier: Apache-2.0
"""The certificate of a loop nest: a scheduled or lowered function against the unscheduled one.

Both get the same unknown inputs. Floats are real numbers here: schedules may change the order of
sums, which rounds otherwise, and nothing else of floats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import specialise
from vdla.compiler.certificates.kernel_run import run_kernels
from vdla.compiler.certificates.nest_run import nest_inputs, run_nest
from vdla.compiler.certificates.symbols import CertificateError, Symbols
from vdla.compiler.interpret import InterpretError
from vdla.compiler.ir import GridKernel
from vdla.compiler.lowering import lower
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.target import GridLimits, Target

Nest = ir.Function | Sequence[GridKernel]


@dataclass(frozen=True, slots=True)
class NestCertificate:
    """The comparison of a loop nest with the function that it must compute: `results` elements,
    `differing` of them.

    `nest` and `function` are hashes of their texts. `difference` is the first element that
    differs, or why the nest computes nothing: a race, an element out of bounds or never written.
    """

    name: str
    nest: str
    function: str
    seed: int
    results: int
    differing: int
    difference: str = ""

    @property
    def holds(self) -> bool:
        """Whether the nest computes the function, for all inputs."""
        return not self.differing

    def raise_if_bad(self) -> None:
        """CertificateError with the difference unless it holds."""
        if not self.holds:
            raise CertificateError(str(self))

    def __str__(self) -> str:
        if self.holds:
            return (
                f"certify {self.name}: loop nest {self.nest} computes function {self.function} for all inputs; "
                f"{self.results:,} results, prime 2^61 - 1, seed {self.seed}"
            )
        return f"certify {self.name}: {self.differing:,} of {self.results:,} results differ; {self.difference}"

    __repr__ = __str__


def certify_nest(
    nest: Nest,
    function: ir.Function,
    target: Target | GridLimits | None = None,
    extents: Mapping[str, int] | None = None,
    seed: int = 0,
) -> NestCertificate:
    """Whether a loop nest, or kernels, compute a function; `target` lowers the nest first.

    `extents` are numbers for symbolic extents, for which alone the certificate holds.

    Raises:
        CertificateError: parameters that differ, symbolic extents without numbers, or what has no
            meaning on symbols.
        PassError: the nest cannot be lowered.
    """
    lowered = _lowered(nest, target)
    if isinstance(lowered, ir.Function):
        _require_parameters(lowered, function)
    given = dict(extents or {})
    if set(given) != set(function.scalars):
        wanted, got = (", ".join(names) or "none" for names in (function.scalars, given))
        raise CertificateError(f"certify {function.name}: extents must be given for {wanted}, got {got}")
    plain = specialise(function, given)
    inputs = nest_inputs(plain, seed)
    wanted_results = run_nest(plain, inputs)
    count = sum(array.size for array in wanted_results.values())
    try:
        results = _results(lowered, plain, given, inputs)
        differing, difference = _difference(wanted_results, results)
    except InterpretError as error:
        differing, difference = count, str(error)
    return NestCertificate(
        name=function.name,
        nest=_hash(lowered),
        function=_hash(function),
        seed=seed,
        results=count,
        differing=differing,
        difference=difference,
    )


def _lowered(nest: Nest, target: Target | GridLimits | None) -> Nest:
    if target is None or not isinstance(nest, ir.Function):
        return nest
    return lower(nest, target) if isinstance(target, Target) else lower_kernels(nest, target)


def _require_parameters(nest: ir.Function, function: ir.Function) -> None:
    """CertificateError unless both have the same parameters."""
    shown = []
    for one in (function, nest):
        buffers = (one.buffers[name] for name in one.params)
        shown.append(", ".join(f"{b.name} {b.dtype}[{', '.join(map(str, b.shape))}]" for b in buffers))
    if shown[0] != shown[1]:
        raise CertificateError(f"certify {function.name}: parameters must be {shown[0]}, got {shown[1]}")


def _results(
    nest: Nest, function: ir.Function, extents: Mapping[str, int], inputs: Mapping[str, Symbols]
) -> dict[str, Symbols]:
    if isinstance(nest, ir.Function):
        return run_nest(specialise(nest, extents), inputs, ir.output_names(function))
    if any(kernel.scalars for kernel in nest):
        raise CertificateError(f"certify {function.name}: extents of kernels must be numbers, got symbols")
    return run_kernels(nest, inputs, ir.output_names(function))


def _difference(wanted: Mapping[str, Symbols], got: Mapping[str, Symbols]) -> tuple[int, str]:
    """How many results differ, and the first one."""
    count, first = 0, ""
    for name, array in wanted.items():
        differs = np.asarray(array["value"] != got[name]["value"])
        count += int(differs.sum())
        if differs.any() and not first:
            first = f"the first is {name}[{', '.join(str(int(i)) for i in np.argwhere(differs)[0])}]"
    return count, first


def _hash(nest: Nest) -> str:
    text = str(nest) if isinstance(nest, ir.Function) else "\n".join(map(str, nest))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
