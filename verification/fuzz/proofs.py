# SPDX-License-Identifier: Apache-2.0
"""What a certificate says of a scheduled function of the fuzzer, beside runs on data.

A certificate that does not hold need not be a fault: what is equal by no lemma is refused too. So
it asks for more data, and is a fault where results differ for some of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from numpy.random import default_rng

from vdla.compiler import ir
from vdla.compiler.arith import scalars_of
from vdla.compiler.certificates.nest_certificate import certify_nest
from vdla.compiler.certificates.symbols import CertificateError
from vdla.compiler.ir import Array
from vdla.verification.fuzz.functions import FuzzProblem, random_array

_MORE = 8  # inputs for a function whose certificate does not hold


class Proof(Enum):
    """What a certificate says."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    WITHOUT_SYMBOLS = "without symbols"  # a type of integers that has none


def proof_of(problem: FuzzProblem, scheduled: ir.Function) -> Proof:
    """Whether a scheduled function computes its problem for all inputs of the problem's shapes."""
    shapes = {name: array.shape for name, array in problem.arrays.items()}
    extents = scalars_of(problem.fn, shapes) if problem.fn.scalars else {}
    try:
        holds = certify_nest(scheduled, problem.fn, extents=extents, seed=problem.seed).holds
    except CertificateError:
        return Proof.WITHOUT_SYMBOLS
    return Proof.PROVEN if holds else Proof.UNPROVEN


def more_inputs(problem: FuzzProblem) -> Iterator[Mapping[str, Array]]:
    """Other inputs of a problem."""
    for number in range(_MORE):
        rng = default_rng([problem.seed, number])
        buffers = ((name, problem.fn.buffers[name].dtype, array.shape) for name, array in problem.arrays.items())
        yield {name: random_array(rng, shape, dtype) for name, dtype, shape in buffers}
