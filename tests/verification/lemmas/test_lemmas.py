# SPDX-License-Identifier: Apache-2.0
"""The lemmas of certificates: each one holds for small integers and is proven; faults are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.certificates.lemmas import LEMMAS, REWRITES, Lemma
from vdla.compiler.ir import OPERATORS
from vdla.verification.lemmas.exhaustion import IntegerAlgebra, holds_exhaustively
from vdla.verification.lemmas.faults import planted_lemma_faults
from vdla.verification.lemmas.statements import IntegerType

FAULTS = list(planted_lemma_faults())


@pytest.mark.sampled
@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.name)
def test_a_lemma_holds_for_all_small_integers(lemma: Lemma) -> None:
    assert holds_exhaustively(lemma)


@pytest.mark.sampled
@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.name)
def test_a_lemma_is_proven(lemma: Lemma) -> None:
    pytest.importorskip("bitwuzla")
    pytest.importorskip("cvc5")
    from vdla.verification.lemmas.proof import proof_holds

    assert proof_holds(lemma)


def test_lemmas_have_names_of_one_each() -> None:
    assert len({lemma.name for lemma in LEMMAS}) == len(LEMMAS)


def test_many_faults_are_wrong_and_some_are_true() -> None:
    wrong = [fault for fault in FAULTS if not holds_exhaustively(fault.lemma)]
    assert len(wrong) >= 100
    assert len({fault.kind for fault in wrong}) >= 8
    assert len(wrong) < len(FAULTS)


def test_a_fault_of_each_kind_is_not_proven() -> None:
    pytest.importorskip("bitwuzla")
    pytest.importorskip("cvc5")
    from vdla.verification.lemmas.proof import proof_holds

    for kind in sorted({fault.kind for fault in FAULTS}):
        some = [fault.lemma for fault in FAULTS if fault.kind == kind and not holds_exhaustively(fault.lemma)]
        for lemma in some[:: max(1, len(some) // 4)]:
            assert not proof_holds(lemma), lemma.name


def test_a_shift_whose_amount_may_be_negative_has_no_such_bounds() -> None:
    """The solver shifts a bound as the certifier does, by 0 where the amount is negative."""
    pytest.importorskip("bitwuzla")
    pytest.importorskip("cvc5")
    from vdla.verification.lemmas.proof import proof_holds

    (shift,) = (lemma for lemma in LEMMAS if lemma.name == "bounds of a shift")
    assert not proof_holds(replace(shift, needs=shift.needs[:1]))


@pytest.mark.parametrize("op", sorted({lemma.op for lemma in REWRITES if lemma.op in OPERATORS} | {"add", "mul"}))
def test_small_integers_are_computed_as_the_interpreter_does(op: str) -> None:
    """On 8 bits, where NumPy has the type."""
    for dtype, name in ((IntegerType(8, True), np.int8), (IntegerType(8, False), np.uint8)):
        k = IntegerAlgebra(dtype)
        x, y = np.meshgrid(*[np.arange(k.first, k.last + 1)] * 2)
        with np.errstate(all="ignore"):
            wanted = OPERATORS[op].on_arrays(x.astype(name), y.astype(name))
        assert np.array_equal(k.op(op, x, y), wanted)


def test_the_solver_computes_as_the_interpreter_does() -> None:
    """Every operation on numbers at the limits of a type, by the solver's terms."""
    bitwuzla = pytest.importorskip("bitwuzla")
    from vdla.verification.lemmas.solver import SolverAlgebra

    for dtype in (IntegerType(8, True), IntegerType(8, False)):
        k, integers = SolverAlgebra(dtype), IntegerAlgebra(dtype)
        solver = bitwuzla.Bitwuzla(k.manager)
        some = [integers.first, integers.first + 1, 0, 1, 3, 7, 8, 9, integers.last - 1, integers.last]
        for op in OPERATORS:
            for x in some:
                for y in some:
                    wanted = integers.op(op, np.int64(x), np.int64(y))
                    given = k.op(op, k.number(x), k.number(y))
                    wanted_term = k.number(int(wanted)) if hasattr(given, "signed") else k.true if wanted else k.false
                    solver.push(1)
                    solver.assert_formula((~k.equal(given, wanted_term)).term)
                    assert solver.check_sat() == bitwuzla.Result.UNSAT, (op, x, y, dtype)
                    solver.pop(1)
