# SPDX-License-Identifier: Apache-2.0
"""Places of the largest and smallest elements, in every order, and as keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vdla
from vdla.compiler import ir, operators, te
from vdla.compiler.certificates.certify import certify
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.symbols import Symbols, numbers, unknowns
from vdla.compiler.interpret import interpret

SHAPE = (3, 13)
OPS = {"argmax": operators.argmax, "argmin": operators.argmin}


def place_of(op: str, dtype: str = "int8", axis: int = 1, last: bool = False) -> ir.Function:
    """The places of extremes of rows or columns."""
    x = te.placeholder(SHAPE, dtype, "x")
    return te.create_function([x], [OPS[op](x, axis, False, last, name="place")], "places")


def symbols_of(fn: ir.Function) -> Symbols:
    """The result on unknown elements."""
    dtype = fn.buffers["x"].dtype
    (made,) = evaluate(fn, {"x": unknowns("x", SHAPE, dtype, 0)}).values()
    return made


def by_keys(term: Callable[..., Any], reduce: Any, low_bits: Callable[[te.Value], te.Value]) -> Symbols:
    """Places as the low bits of the extremes of keys."""
    x, k = te.placeholder(SHAPE, "int8", "x"), te.reduce_axis(SHAPE[1], "k")
    keys = te.compute((SHAPE[0],), lambda n: reduce(term(te.cast("int32", x[n, k]), k), axis=k), "keys")
    places = te.compute((SHAPE[0],), lambda n: te.cast("int64", low_bits(keys[n])), "places")
    return symbols_of(te.create_function([x], [places], "keys"))


def largest(term: Callable[..., Any]) -> Symbols:
    """Those of the largest keys."""
    return by_keys(term, te.max, lambda key: (0 - key) & 0xFFFF)


def test_a_place_is_the_low_bits_of_the_best_key() -> None:
    wanted = symbols_of(place_of("argmax"))
    assert (wanted["value"] == largest(lambda value, place: (value << 16) - place)["value"]).all()
    wanted = symbols_of(place_of("argmin"))
    made = by_keys(lambda value, place: (value << 16) + place, te.min, lambda key: key & 0xFFFF)
    assert (wanted["value"] == made["value"]).all()
    assert ((made["low"] == 0) & (made["high"] == 0xFFFF)).all()


WRONG_KEYS: dict[str, Callable[[te.Value, te.Value], te.Value]] = {
    "the last of equal elements": lambda value, place: (value << 16) + place,
    "the next place": lambda value, place: (value << 16) - place - 1,
    "places of fewer bits": lambda value, place: (value << 16) - (place & 7),
    "values with fewer bits": lambda value, place: ((value >> 1) << 16) - place,
    "room for fewer places": lambda value, place: (value << 3) - place,
    "room for more places": lambda value, place: (value << 17) - place,
    "the smallest": lambda value, place: 0 - (value << 16) - place,
    "places from the end": lambda value, place: (value << 16) - (12 - place),
    "a row that is one short": lambda value, place: (value << 16) - te.minimum(place, 11),
    "magnitudes": lambda value, place: (te.maximum(value, 0 - value) << 16) - place,
    "a clipped value": lambda value, place: (te.maximum(value, -127) << 16) - place,
    "every second place": lambda value, place: (value << 16) - 2 * place,
    "no place": lambda value, place: value << 16,
}


@pytest.mark.parametrize("fault", WRONG_KEYS)
def test_places_of_other_keys_differ(fault: str) -> None:
    assert (symbols_of(place_of("argmax"))["value"] != largest(WRONG_KEYS[fault])["value"]).all()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", OPS)
def test_places_of_numbers_are_those_of_the_interpreter(op: str, axis: int, last: bool) -> None:
    data = np.random.default_rng(0).integers(-3, 3, SHAPE).astype(np.int8)
    fn = place_of(op, axis=axis, last=last)
    assert np.array_equal(evaluate(fn, {"x": numbers(data)})["place"]["low"], interpret(fn, {"x": data})["place"])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("op", OPS)
def test_places_do_not_depend_on_the_order(op: str, last: bool, dtype: str) -> None:
    """A reduction in parts, each with a remainder, and in another order of them."""
    s = vdla.Schedule(place_of(op, dtype, last=last))
    *_, k = s.loops("place_value")
    outer, _ = s.split(k, factor=5)
    s.rfactor(outer)
    assert certify(s).holds


def test_other_places_are_no_places_of_this_extreme() -> None:
    made = {
        (op, last, axis): symbols_of(place_of(op, "int8", axis, last))
        for op in OPS
        for last in (0, 1)
        for axis in (0, 1)
    }
    values = np.concatenate([one["value"] for one in made.values()])
    assert len(np.unique(values)) == len(values)
