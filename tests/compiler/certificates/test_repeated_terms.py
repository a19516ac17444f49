# SPDX-License-Identifier: Apache-2.0
"""Terms that repeat the last one fill entries: certificates know that they change no extreme."""

from __future__ import annotations

import numpy as np
import pytest

import vdla
from vdla import te
from vdla.compiler.certificates.certify import certify
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.repeated_terms import repeated
from vdla.compiler.certificates.symbols import numbers, unknowns
from vdla.compiler.map import candidates
from vdla.hardware.config import Config

TINY = Config.preset("tiny")
X = unknowns("x", (4,), "int8", 0)


def less(places, dtype="int32"):
    """x less places."""
    return binary("sub", X, numbers(np.asarray(places)), dtype)


@pytest.mark.parametrize(
    ("op", "term", "after", "expected"),
    [
        ("max", X, X, True),
        ("max", X, less([1, 2, 3, 255]), True),
        ("max", X, less([-1, -1, -1, -1]), False),  # the later one is larger
        ("max", X, less([256, 300, 1000, 1 << 20]), False),  # too far to tell it from chance
        ("min", X, less([-1, -2, -3, -255]), True),
        ("min", X, less([1, 1, 1, 1]), False),
        ("max", X, unknowns("y", (4,), "int8", 0), False),
        ("max", X, np.roll(X, 1), False),
    ],
)
def test_a_term_repeats_another_if_it_is_no_better(op, term, after, expected):
    assert (repeated(op, term, after, "int32") == expected).all()


@pytest.mark.parametrize("op", ["max", "min"])
def test_a_number_that_may_wrap_is_not_compared(op):
    far = binary("add", X, numbers(np.int64((1 << 31) - 130 if op == "min" else -(1 << 31) + 130)), "int32")
    assert not repeated(op, far, binary("sub" if op == "max" else "add", far, numbers(200), "int32"), "int32").any()


def extension(op):
    """acc[b, o] = the best element of a row of weights."""

    def declare(config):
        w, i = (
            te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w"),
            te.reduce_axis(config.block_in, "i"),
        )
        value = lambda b, o: getattr(te, op)(te.cast("int32", w[o, i]), axis=i)  # noqa: E731
        output = te.compute((config.batch, config.block_out), value, "acc")
        return vdla.Extension(name=f"rows_{op}", doc="The best.", output=output, scopes={"w": "wgt", "acc": "acc"})

    return declare


def best(op, rows, terms):
    x, k = te.placeholder((rows, terms), "int8", "x"), te.reduce_axis(terms, "k")
    return te.compute((rows,), lambda n: getattr(te, op)(te.cast("int32", x[n, k]), axis=k), "best")


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize(("rows", "terms"), [(3, 5), (10, 30), (8, 32), (1, 9), (4, 1)])
def test_rows_that_do_not_fill_entries_are_certified(op, rows, terms):
    config = vdla.extend(TINY, extension(op))
    found = candidates(best(op, rows, terms), config).found
    operator = next(one for one in found if f"rows_{op}" in str(one.mapping))
    assert certify(operator).holds


@pytest.mark.parametrize("lacking", range(9))
def test_a_term_that_is_lacking_is_found(lacking):
    """A program that reads another element twice in place of one."""
    config = vdla.extend(TINY, extension("max"))
    found = candidates(best("max", 1, 9), config).found
    operator = next(one for one in found if "rows_max" in str(one.mapping))
    x, k = te.placeholder((1, 9), "int8", "x"), te.reduce_axis(9, "k")
    other = te.compute(
        (1,),
        lambda n: te.max(te.cast("int32", x[n, te.select(k == lacking, (lacking + 1) % 9, k)]), axis=k),
        "best",
    )
    assert not certify(operator, expression=other).holds
