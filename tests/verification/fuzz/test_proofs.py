# SPDX-License-Identifier: Apache-2.0
"""What certificates add to the fuzzer: faults that the data of a case hides."""

from __future__ import annotations

import numpy as np

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret
from vdla.verification.fuzz.cases import hidden_fault, run_case
from vdla.verification.fuzz.functions import FuzzProblem
from vdla.verification.fuzz.proofs import Proof, more_inputs, proof_of


def times(factor: int, dtype: str = "int32") -> ir.Function:
    """y = factor x."""
    x = te.placeholder((5,), dtype, "x")
    return te.create_function([x], [te.compute((5,), lambda i: x[i] * factor, "y")], "times")


def problem(dtype: str = "int32") -> FuzzProblem:
    """A function with data that hides every factor."""
    return FuzzProblem(3, times(2, dtype), {"x": np.zeros(5, dtype)}, rough=False)


def test_a_function_is_proven_or_not() -> None:
    assert proof_of(problem(), times(2)) is Proof.PROVEN
    assert proof_of(problem(), times(3)) is Proof.UNPROVEN
    assert proof_of(problem("uint64"), times(2, "uint64")) is Proof.WITHOUT_SYMBOLS


def test_a_fault_that_data_hides_is_shown_by_more_data() -> None:
    zeros = problem().arrays
    assert interpret(times(2), zeros)["y"].tolist() == interpret(times(3), zeros)["y"].tolist()
    assert hidden_fault(problem(), times(3)).startswith("certificate: y must be [")
    assert hidden_fault(problem(), times(2)) == ""
    assert len({str(arrays["x"].tolist()) for arrays in more_inputs(problem())}) == 8


def test_cases_have_proofs() -> None:
    proofs = {run_case(seed, native=False).proof for seed in range(20)}
    assert proofs <= set(Proof)
    assert Proof.PROVEN in proofs
