# SPDX-License-Identifier: Apache-2.0
"""Random functions of tensor expressions, replayable by their seed: all dtypes, several stages,
every kind of stage.

    problem = random_problem(7)
    interpret(problem.fn, problem.arrays)

Arrays are tiny, so that a case costs little; extents are mostly odd, so that no tile divides them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm.intrinsics.dot import madd, vnni
from vdla.compiler.ir import DTYPES, Array, is_float, is_integer, limits, storage_dtype
from vdla.compiler.tensorize import Intrinsic
from vdla.verification.fuzz.values import FLOATS, INTEGERS, LARGEST, WIDE_FLOATS, FuzzIndex, Grade, Values

_EXTENTS = (1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 11)
_MAX_ELEMENTS = 120
_MAX_TERMS = 40
_SYMBOLS = ("n", "m")
DOT = "dot"  # the annotation of a block that an intrinsic may compute
_KINDS = {"elements": 10, "rough": 2, "reduce": 7, "best": 2, "recurrence": 2, "pair": 1, "dot": 1}


@dataclass(frozen=True, slots=True)
class FuzzProblem:
    """A function with inputs. `rough`: native code may differ from the interpreter in the last
    places."""

    seed: int
    fn: ir.Function
    arrays: Mapping[str, Array]
    rough: bool


def random_problem(seed: int) -> FuzzProblem:
    """The problem of a seed."""
    maker = _Maker(random.Random(seed))
    for _ in range(maker.rng.randint(1, 3)):
        maker.add_input()
    for _ in range(maker.rng.choice((1, 2, 2, 3, 3, 4))):
        maker.add_stage()
    outputs = [maker.stages[-1], *(t for t in maker.stages[:-1] if maker.rng.random() < 0.25)]
    fn = te.create_function(maker.inputs, outputs, f"case_{seed}")
    rough = any(grade is Grade.ROUGH for _, grade in maker.values.tensors)
    return FuzzProblem(seed, fn, maker.arrays, rough)


@dataclass
class _Maker:
    """The tensors so far. `symbols` are extents that the function learns from its inputs."""

    rng: random.Random
    values: Values = field(init=False)
    symbols: dict[str, int] = field(init=False)
    known: list[te.Value] = field(default_factory=list)
    inputs: list[te.Tensor] = field(default_factory=list)
    stages: list[te.Tensor] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = Values(self.rng)
        count = self.rng.choice((0, 0, 0, 0, 1, 2))
        self.symbols = {name: self.rng.choice(_EXTENTS) for name in _SYMBOLS[:count]}

    # --- shapes -----------------------------------------------------------------------------------

    def size(self, extent: te.Dim) -> int:
        """The value of an extent in this problem."""
        return extent if isinstance(extent, int) else self.symbols[extent.symbols[0]]

    def shape(self, choices: Sequence[te.Value]) -> tuple[te.Dim, ...]:
        """A shape of one to three dimensions and not many elements; some of its extents are symbols
        of `choices`."""
        while True:
            rank = self.rng.choice((1, 2, 2, 2, 3))
            shape = tuple(self.extent(choices) for _ in range(rank))
            if np.prod([self.size(extent) for extent in shape]) <= _MAX_ELEMENTS:
                return shape

    def extent(self, choices: Sequence[te.Value]) -> te.Dim:
        """A number, or a symbol."""
        return self.rng.choice(choices) if choices and self.rng.random() < 0.4 else self.rng.choice(_EXTENTS)

    # --- tensors ----------------------------------------------------------------------------------

    def add_input(self) -> None:
        """A placeholder and its array: small whole numbers, now and then the ends of the range."""
        dtype, shape = self.rng.choice(DTYPES), self.shape([te.var(name) for name in self.symbols])
        self.known += [extent for extent in shape if not isinstance(extent, int)]
        self.place_input(te.placeholder(shape, dtype, "abc"[len(self.inputs)]))

    def place_input(self, tensor: te.Tensor) -> None:
        """An input with its array."""
        generator = default_rng(self.rng.randrange(1 << 32))
        self.inputs.append(tensor)
        shape = tuple(self.size(extent) for extent in tensor.shape)
        self.arrays[tensor.name] = random_array(generator, shape, tensor.dtype)
        self.values.tensors.append((tensor, Grade.EXACT))

    def add_stage(self) -> None:
        """A computed tensor, or several of one block."""
        kind = self.rng.choices(list(_KINDS), list(_KINDS.values()))[0]
        tensors, grade = getattr(self, kind)(f"t{len(self.stages)}")
        self.stages += tensors
        self.values.tensors += [(tensor, grade) for tensor in tensors]

    def body(self, element: Callable[[list[FuzzIndex]], Any], shape: Sequence[te.Dim]) -> Callable[..., Any]:
        """A compute body that calls `element` with the positions of its indices."""
        return lambda *i: element([FuzzIndex(v, n) for v, n in zip(i, shape, strict=True)])

    def elements(self, name: str) -> _Made:
        """An element-wise stage."""
        shape, dtype, depth = self.shape(self.known), self.rng.choice(DTYPES), self.rng.randint(1, 3)
        grade = self.rng.choice((Grade.EXACT, Grade.FRACTION)) if is_float(dtype) else Grade.EXACT
        value = self.body(lambda at: self.values.element(at, dtype, grade, depth), shape)
        return [te.compute(shape, value, name)], grade

    def rough(self, name: str) -> _Made:
        """An element-wise stage of transcendental functions."""
        shape, dtype = self.shape(self.known), self.rng.choice(WIDE_FLOATS)
        value = self.body(lambda at: self.values.element(at, dtype, Grade.ROUGH, 2), shape)
        return [te.compute(shape, value, name)], Grade.ROUGH

    def pair(self, name: str) -> _Made:
        """A stage with two results."""
        shape, dtypes = self.shape(self.known), self.rng.choices(DTYPES, k=2)

        def value(at: list[FuzzIndex]) -> tuple[te.Value, ...]:
            return tuple(self.values.element(at, dtype, Grade.EXACT, 1) for dtype in dtypes)

        return list(te.compute(shape, self.body(value, shape), (name, f"{name}b"))), Grade.EXACT

    # --- reductions -------------------------------------------------------------------------------

    def reduce(self, name: str) -> _Made:
        """A sum, product, minimum or maximum; float terms are small enough to be exact."""
        shape, dtype = self.shape(self.known), self.rng.choice((*INTEGERS, *FLOATS))
        axes = self.reduce_axes(1 + (self.rng.random() < 0.4))
        reducer = self.rng.choice((te.sum, te.sum, te.max, te.min, _PRODUCT))
        given = self.rng.random() < 0.3

        def combined(at: list[FuzzIndex]) -> te.Value:
            value = self.term(at, axes, dtype)
            return reducer(value, axis=axes, init=self.term(at, [], dtype) if given else None)

        value = self.body(combined, shape)
        return [te.compute(shape, value, name)], Grade.EXACT

    def best(self, name: str) -> _Made:
        """An argmin or argmax."""
        shape, dtype = self.shape(self.known), self.rng.choice((*INTEGERS, *FLOATS))
        axes = self.reduce_axes(1 + (self.rng.random() < 0.3))
        reducer = self.rng.choice((te.argmax, te.argmin))
        value = self.body(lambda at: reducer(self.term(at, axes, dtype), axis=axes), shape)
        return list(te.compute(shape, value, (name, f"{name}b"))), Grade.EXACT

    def term(self, at: list[FuzzIndex], axes: Sequence[te.ReduceAxis], dtype: str) -> te.Value:
        """The term of a reduction over `axes`."""
        places = [*at, *(FuzzIndex(te.as_value(axis, "fuzz"), axis.extent) for axis in axes)]
        self.rng.shuffle(places)
        element = self.values.element(places, dtype, Grade.EXACT, self.rng.randint(0, 2))
        return te.clip(element, -LARGEST, LARGEST) if is_float(dtype) else element

    def reduce_axes(self, count: int) -> list[te.ReduceAxis]:
        """Reduce axes with few points."""
        while True:
            extents = [self.extent(self.known) for _ in range(count)]
            if np.prod([self.size(extent) for extent in extents]) <= _MAX_TERMS:
                return [te.reduce_axis(extent, f"k{n}") for n, extent in enumerate(extents)]

    def dot(self, name: str) -> _Made:
        """A matrix product over groups of integers, which an intrinsic may match."""
        group, *dtypes = GROUPS[self.rng.choice(list(GROUPS))]
        rows, blocks, groups = (self.rng.choice((1, 2, 3)) for _ in range(3))
        shapes = {f"{name}x": (rows, groups, group), f"{name}w": (blocks, groups, LANES, group)}
        for (operand, shape), dtype in zip(shapes.items(), dtypes, strict=True):
            self.place_input(te.placeholder(shape, dtype, operand))
        x, w = (tensor for tensor, _ in self.values.tensors[-2:])
        k, i = te.reduce_axis(groups, "k0"), te.reduce_axis(group, "k1")

        def value(y: te.Value, b: te.Value, o: te.Value) -> te.Value:
            return te.sum(te.cast("int32", x[y, k, i]) * te.cast("int32", w[b, k, o, i]), axis=[k, i])

        return [te.compute((rows, blocks, LANES), value, name, {DOT: group})], Grade.EXACT

    # --- recurrences ------------------------------------------------------------------------------

    def recurrence(self, name: str) -> _Made:
        """A scan: each step computes its state from the previous one, forwards or backwards."""
        shape, dtype = self.shape(self.known), self.rng.choice(DTYPES)
        steps = self.extent(self.known)
        start = te.compute(
            shape, self.body(lambda at: self.values.element(at, dtype, Grade.EXACT, 1), shape), f"{name}s"
        )
        before = len(self.values.tensors)

        def cell(t: te.Value, state: te.Tensor) -> te.Tensor:
            self.values.tensors.append((state, Grade.EXACT))
            axes = self.reduce_axes(1) if is_integer(dtype) and self.rng.random() < 0.3 else []
            value = self.body(lambda at: self.next_state(FuzzIndex(t, steps), state, at, axes), shape)
            after: te.Tensor = te.compute(shape, value, name)
            return after

        states = te.scan(steps, cell, start, reverse=self.rng.random() < 0.3)
        del self.values.tensors[before:]
        return [states], Grade.EXACT

    def next_state(
        self, step: FuzzIndex, state: te.Tensor, at: list[FuzzIndex], axes: Sequence[te.ReduceAxis]
    ) -> te.Value:
        """The previous state combined with a term so small that states of floats stay integral."""
        old = state[tuple(place.value for place in at)]
        if axes:
            return te.sum(self.term([*at, step], axes, state.dtype), axis=axes, init=old)
        element = self.values.element([*at, step], state.dtype, Grade.EXACT, 1)
        if state.dtype == "bool":
            return old ^ element
        return te.clip(old + element, -LARGEST, LARGEST) if is_float(state.dtype) else old + element


_Made = tuple[list[te.Tensor], Grade]
_PRODUCT = te.reducer(lambda x, y: x * y, 1, "product")


def random_array(rng: Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """An array of a dtype."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if is_float(dtype):
        return rng.integers(-3, 4, shape).astype(storage_dtype(dtype))
    low, high = (int(limit) for limit in limits(dtype))
    small = rng.integers(max(low, -5), min(high, 5), shape, endpoint=True).astype(storage_dtype(dtype))
    ends = np.array([low, high], storage_dtype(dtype))[rng.integers(0, 2, shape)]
    return np.where(rng.random(shape) < 0.1, ends, small)


# --- intrinsics -----------------------------------------------------------------------------------
# Intrinsics for random schedules: dot products of small groups, an instruction of x86-64 or else
# plain code.


LANES = 4
PAIRS, QUADS = madd(LANES), vnni(LANES)
INTRINSICS: dict[str, Intrinsic] = {intrinsic.name: intrinsic for intrinsic in (PAIRS, QUADS)}
GROUPS = {PAIRS.name: (2, "int16", "int16"), QUADS.name: (4, "uint8", "int8")}
"""The terms of one step, and the dtypes of activations and weights."""
