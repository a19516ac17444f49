"""Random functions of tensor expressions, replayable by their seed: all dtypes, several stages, every kind of stage.

    problem = random_problem(7)
    interpret(problem.fn, problem.arrays)

Arrays are tiny, so that a case costs little; extents are mostly odd, so that no tile divides them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vdla.benchmarks.fuzz_values import FLOATS, INTEGERS, LARGEST, Grade, Place, Values
from vdla.compiler import ir, te
from vdla.compiler.dtypes import DTYPES, Array, is_float, limits, storage
from vdla.compiler.element import as_value

EXTENTS = (1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 11)
MOST_ELEMENTS = 120
MOST_TERMS = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """A function with inputs. `rough`: native code may differ from the interpreter in the last places."""

    seed: int
    fn: ir.Function
    arrays: Mapping[str, Array]
    rough: bool


def random_problem(seed: int) -> Problem:
    """The problem of a seed."""
    maker = Maker(random.Random(seed))
    for _ in range(maker.rng.randint(1, 3)):
        maker.add_input()
    for _ in range(maker.rng.choice((1, 2, 2, 3, 3, 4))):
        maker.add_stage()
    outputs = [maker.stages[-1], *(t for t in maker.stages[:-1] if maker.rng.random() < 0.25)]
    fn = te.create_function(maker.inputs, outputs, f"case_{seed}")
    rough = any(grade is Grade.ROUGH for _, grade in maker.values.tensors)
    return Problem(seed, fn, maker.arrays, rough)


@dataclass
class Maker:
    """The tensors so far."""

    rng: random.Random
    values: Values = field(init=False)
    inputs: list[te.Tensor] = field(default_factory=list)
    stages: list[te.Tensor] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = Values(self.rng)

    def shape(self) -> tuple[int, ...]:
        """A shape of one to three dimensions and not many elements."""
        while True:
            shape = tuple(self.rng.choice(EXTENTS) for _ in range(self.rng.choice((1, 2, 2, 2, 3))))
            if np.prod(shape) <= MOST_ELEMENTS:
                return shape

    def add_input(self) -> None:
        """A placeholder and its array: small whole numbers, now and then the ends of the range."""
        dtype = self.rng.choice(DTYPES)
        tensor = te.placeholder(self.shape(), dtype, "abc"[len(self.inputs)])
        generator = np.random.default_rng(self.rng.randrange(1 << 32))
        self.inputs.append(tensor)
        self.arrays[tensor.name] = random_array(generator, tensor.shape, dtype)
        self.values.tensors.append((tensor, Grade.EXACT))

    def add_stage(self) -> None:
        """A computed tensor."""
        kind = self.rng.choices(("elements", "rough", "reduce"), (5, 1, 4))[0]
        tensor, grade = getattr(self, f"_{kind}")(f"t{len(self.stages)}")
        self.stages.append(tensor)
        self.values.tensors.append((tensor, grade))

    def _elements(self, name: str) -> tuple[te.Tensor, Grade]:
        shape, dtype = self.shape(), self.rng.choice(DTYPES)
        grade = self.rng.choice((Grade.EXACT, Grade.FRACTION)) if is_float(dtype) else Grade.EXACT
        depth = self.rng.randint(1, 3)
        body = self._body(lambda at: self.values.element(at, dtype, grade, depth), shape)
        return te.compute(shape, body, name), grade

    def _rough(self, name: str) -> tuple[te.Tensor, Grade]:
        shape, dtype = self.shape(), self.rng.choice(FLOATS[2:])
        body = self._body(lambda at: self.values.element(at, dtype, Grade.ROUGH, 2), shape)
        return te.compute(shape, body, name), Grade.ROUGH

    def _body(self, element: Any, shape: tuple[int, ...]) -> Any:  # noqa: ANN401  a function of the indices
        return lambda *i: element([Place(v, n) for v, n in zip(i, shape, strict=True)])

    def _reduce(self, name: str) -> tuple[te.Tensor, Grade]:
        shape, dtype = self.shape(), self.rng.choice((*INTEGERS, *FLOATS))
        axes = self._reduce_axes(1 + (self.rng.random() < 0.4))
        reducer = self.rng.choice((te.sum, te.sum, te.max, te.min, PRODUCT))

        def value(at: list[Place]) -> te.Value:
            places = [*at, *(Place(as_value(axis, "fuzz"), axis.extent) for axis in axes)]
            self.rng.shuffle(places)
            element = self.values.element(places, dtype, Grade.EXACT, self.rng.randint(0, 2))
            bounded = te.clip(element, -LARGEST, LARGEST) if is_float(dtype) else element
            return reducer(bounded, axis=axes)

        return te.compute(shape, self._body(value, shape), name), Grade.EXACT

    def _reduce_axes(self, count: int) -> list[te.ReduceAxis]:
        while True:
            extents = [self.rng.choice(EXTENTS) for _ in range(count)]
            if np.prod(extents) <= MOST_TERMS:
                return [te.reduce_axis(extent, f"k{n}") for n, extent in enumerate(extents)]


PRODUCT = te.reducer(lambda x, y: x * y, 1, "product")


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """An array of a dtype."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if is_float(dtype):
        return rng.integers(-3, 4, shape).astype(storage(dtype))
    low, high = (int(limit) for limit in limits(dtype))
    small = rng.integers(max(low, -5), min(high, 5), shape, endpoint=True).astype(storage(dtype))
    ends = np.array([low, high], storage(dtype))[rng.integers(0, 2, shape)]
    return np.where(rng.random(shape) < 0.1, ends, small)
