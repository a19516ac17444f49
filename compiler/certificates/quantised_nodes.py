# SPDX-License-Identifier: Apache-2.0
"""Integer operators against the float operators between DequantizeLinear and QuantizeLinear that
they replace.

Both are evaluated on the same unknown integers, the floats with unknown scales. What is rounded is
then `factor * n + shift` for the integers n that the integer operator sums, with a factor and a
shift that are products of scales, and `multiplier * n / 2^s` in the integer operator. Both are
rounded for every n that there is, in exact rationals: a result may differ by one unit, and only
where the exact value is next to the middle between two integers. The multiplier must be the factor
but for the rounding of scales to float32, and a bias the nearest integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import field
from vdla.compiler.certificates.elementwise import numbers, unknowns
from vdla.compiler.certificates.float_operations import float_binary, float_cast, reciprocal
from vdla.compiler.certificates.float_symbols import any_float, float_numbers
from vdla.compiler.certificates.graph_run import integer_sums
from vdla.compiler.certificates.integer_operators import IntegerNode
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.pass_integers import FUNCTIONS, table_of
from vdla.compiler.certificates.rounded_sums import (
    Rounding,
    RoundingDifference,
    difference,
    pair_difference,
    values_difference,
)
from vdla.compiler.certificates.symbols import CertificateError, SymbolForm, Symbols, elements_of, key, known
from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.hardware.numerics import unpack_scale

Run = Callable[[Graph, Mapping[str, Symbols]], Mapping[str, Symbols]]
"""The values of a graph of symbols of its inputs."""
Numbers = Callable[[Graph], Mapping[str, Array]]
"""The values of a graph of constants alone."""
Places = slice | npt.NDArray[np.intp]
"""Elements of results."""
_DOUBLINGS = tuple(1 << k for k in range(8))  # by which weights may be multiplied, so that sums have finer steps
_MOST_COUNT = 1 << 12  # of elements that are averaged
_MOST_PRODUCTS = 1 << 16  # of scales
_CLOSE_FACTOR = Fraction(1, 1 << 22)  # relative: three roundings to float32
_CLOSE_RATIO = Fraction(1, 1 << 14)  # of two scales, as integers up to 32,767
_CLOSE_BIAS = Fraction(1, 2)  # of a step of the sums
_CLOSE_TABLE = 2.0**-10  # of a step of the results: functions are computed in float32
_MOST_NODES = 64
_EVERY = np.arange(-128, 128)


@dataclass(frozen=True, slots=True)
class Dequantised:
    """A float that a DequantizeLinear makes: `scale * (x - zero)`, along an axis of x."""

    name: str
    x: str
    scale: Array
    zero: Array
    axis: int
    constant: Array | None

    def along(self, values: Array, rank: int) -> Array:
        """One value for each scale in the shape of x."""
        if values.size == 1:
            return values.reshape(())
        return values.reshape([-1 if d == self.axis % rank else 1 for d in range(rank)])

    def unknown_scales(self) -> Symbols:
        """The scales as unknown numbers."""
        places = np.arange(self.scale.size, dtype=np.uint64)
        return any_float(field.hashed(key("scale", self.name), places))

    def symbols(self, x: Symbols) -> Symbols:
        """The float of unknown scales."""
        rank = x.ndim
        zero = numbers(self.along(self.zero, rank))
        centred = float_cast(binary("sub", x, zero, "int32"), "int32", "float32")
        return float_binary("mul", centred, self.along(self.unknown_scales(), rank), "float32")


class QuantisedPart:
    """The float operators before a QuantizeLinear of a graph, back to integers.

    `value` is what is rounded, before the bounds that Relu and Clip give the result.
    """

    def __init__(self, graph: Graph, result: str) -> None:
        node = graph.producers[result]
        made = _dequantised(graph, node) if node.op == "QuantizeLinear" else None
        if made is None or made.scale.size != 1 or graph.tensor(result).dtype != "int8":
            raise CertificateError(f"{result}: it must be quantised to int8 by one constant scale")
        self.graph, self.scale = graph, _exact(made.scale.reshape(())[()])
        self.zero, self.low, self.high = int(made.zero.reshape(())), -128, 127
        self.value = node.inputs[0]
        while (limits := _limits(graph, self.value)) is not None:
            low, high = (None if one is None else self._result_of(one) for one in limits)
            before = self.low, self.high
            self.low = before[0] if low is None else min(max(low, before[0]), before[1])
            self.high = before[1] if high is None else min(max(high, before[0]), before[1])
            self.value = graph.producers[self.value].inputs[0]
        self.floats: dict[str, Dequantised] = {}
        self.nodes = self._nodes()

    def _result_of(self, number: float) -> int:
        return min(max(round(_exact(number) / self.scale) + self.zero, -128), 127)

    def rounding(self, factor: Fraction, shift: Fraction) -> Rounding:
        """How `factor * n + shift` becomes a result."""
        return Rounding(factor / self.scale, shift / self.scale, self.zero, self.low, self.high)

    def _nodes(self) -> tuple[Node, ...]:
        members: dict[int, Node] = {}
        pending = [self.value]
        while pending:
            name = pending.pop()
            node = self.graph.producers.get(name)
            if not name or name in self.floats or self.graph.constant(name) is not None:
                continue
            made = _dequantised(self.graph, node) if node is not None and node.op == "DequantizeLinear" else None
            if made is not None:
                self.floats[name] = made
            elif node is None or len(members) > _MOST_NODES:
                raise CertificateError(f"{name}: it must be computed of few dequantised values")
            elif id(node) not in members:
                members[id(node)] = node
                pending += node.inputs
        return tuple(node for node in self.graph.nodes if id(node) in members)

    @property
    def sources(self) -> tuple[str, ...]:
        """The integers that are unknown."""
        return tuple(dict.fromkeys(one.x for one in self.floats.values() if one.constant is None))

    def graph_of(self, inputs: tuple[str, ...], constants: Mapping[str, Array]) -> Graph:
        """The float operators as a graph."""
        read = {name for node in self.nodes for name in node.inputs}
        kept = {name: value for name, value in self.graph.constants.items() if name in read}
        return self.graph.replace(
            inputs=inputs, outputs=(self.value,), nodes=self.nodes, constants={**kept, **constants}
        )

    def symbols(self, run: Run, leaves: Mapping[str, Symbols]) -> Symbols:
        """What is rounded, of unknown integers by their names."""
        given = {**leaves}
        for name in self.sources:
            if name not in given:
                nodes = between(self.graph, (name,), tuple(leaves))
                given |= run(self.graph.replace(inputs=tuple(leaves), outputs=(name,), nodes=nodes), leaves)
        inputs = {
            name: one.symbols(given[one.x] if one.constant is None or one.x in given else numbers(one.constant))
            for name, one in self.floats.items()
        }
        if self.value in inputs:
            return elements_of(inputs[self.value])
        return elements_of(run(self.graph_of(tuple(inputs), {}), inputs)[self.value])

    def known_factors(self) -> dict[int, Fraction]:
        """The numbers for elements of the field that are products of scales, over small counts."""
        factors = [one for one in self.floats.values() if one.constant is None or one.constant.ndim != 1]
        products = {1: Fraction(1)}
        for one in factors:
            unit = dict(zip(_ints(one.unknown_scales()), map(_exact, one.scale.reshape(-1)), strict=True))
            if len(products) * len(unit) > _MOST_PRODUCTS:
                raise CertificateError(f"{self.value}: scales must have few products")
            products |= {a * b % field.PRIME: x * y for (a, x), (b, y) in product(unit.items(), list(products.items()))}
        counts = {_ints(reciprocal(float_numbers(float(n))))[0]: Fraction(1, n) for n in self._counts()}
        return {a * b % field.PRIME: x * y for (a, x), (b, y) in product(products.items(), counts.items())}

    def _counts(self) -> Iterator[int]:
        yield 1
        for node in self.nodes:
            extents = self.graph.tensor(node.inputs[0]).extents
            if node.op in ("AveragePool", "GlobalAveragePool", "ReduceMean"):
                window = node.attributes.get("kernel_shape", extents[2:])
                yield from range(2, min(prod(window), _MOST_COUNT) + 1)

    def known_shifts(self) -> dict[int, Fraction]:
        """The numbers for elements of the field that are constants, dequantised or not."""
        made = {0: Fraction(0)}
        for one in self.floats.values():
            if one.constant is not None and one.constant.ndim < 2:
                scale, zero = (np.broadcast_to(x.reshape(-1), one.constant.size) for x in (one.scale, one.zero))
                flat = one.constant.reshape(-1).astype(np.int64) - zero
                real = (_exact(s) * int(x) for s, x in zip(scale, flat, strict=True))
                made |= dict(zip(_ints(one.symbols(numbers(one.constant))), real, strict=True))
        for name in {name for node in self.nodes for name in node.inputs}:
            value = self.graph.constant(name)
            if value is not None and value.dtype == np.float32 and value.ndim < 2:
                made |= dict(zip(_ints(float_numbers(value)), map(_exact, value.reshape(-1)), strict=True))
        return made


def _dequantised(graph: Graph, node: Node) -> Dequantised | None:
    """The parameters of a QuantizeLinear or DequantizeLinear, if they are constant."""
    scale = graph.constant(node.inputs[1])
    given = node.inputs[2] if len(node.inputs) > 2 else ""
    if scale is None or scale.dtype != np.float32 or scale.ndim > 1 or node.attributes.get("block_size"):
        return None
    zero = graph.constant(given) if given else np.zeros(scale.shape, np.int64)
    if zero is None or not (np.isfinite(scale) & (scale > 0)).all() or zero.size not in (1, scale.size):
        return None
    zeros = np.broadcast_to(zero.reshape(-1).astype(np.int64), scale.size).reshape(scale.shape)
    x, axis = node.inputs[0], int(node.attribute("axis"))
    return Dequantised(node.outputs[0], x, scale, zeros, axis, graph.constant(x))


def _limits(graph: Graph, name: str) -> tuple[float | None, float | None] | None:
    """The limits of the Relu or Clip that makes a value."""
    node = graph.producers.get(name)
    if node is None or node.op not in ("Relu", "Clip"):
        return None
    if node.op == "Relu":
        return 0.0, None
    given = [graph.constant(one) if one else None for one in (*node.inputs[1:3], "", "")[:2]]
    if any(name and value is None for name, value in zip(node.inputs[1:3], given, strict=False)):
        return None
    low, high = (None if value is None else float(value.reshape(())) for value in given)
    return low, high


def _exact(number: Any) -> Fraction:  # noqa: ANN401  of any type of floats
    return Fraction(float(number))


def _ints(x: Symbols) -> list[int]:
    values: list[int] = elements_of(x)["value"].reshape(-1).tolist()
    return values


# --- the comparison -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuantisedComparison:
    """A part of a graph and the integer operator in another graph that replaces it.

    `leaves` are the unknown integers, values of both graphs; `run` gives the values of a graph on
    symbols, `numbers` those of a graph of constants.
    """

    part: QuantisedPart
    graph: Graph
    node: Node
    leaves: tuple[str, ...]
    run: Run
    numbers: Numbers

    def difference(self) -> RoundingDifference:
        """How the results of both differ.

        Raises:
            CertificateError: they differ by more than rounding, or it is not known how.
        """
        if self.node.op in FUNCTIONS:
            return self._of_functions()
        unknown = {name: self._leaf(name) for name in self.leaves}
        zeros = {name: self._zero(name) for name in self.leaves}
        every = _Sides(self, unknown), _Sides(self, zeros)
        if len(self.leaves) == 2:
            alone = [_Sides(self, {**zeros, name: unknown[name]}) for name in self.leaves]
            if any((one.real["value"] != every[1].real["value"]).any() for one in alone):
                return self._of_two(*every, alone)
        return _of_sums(self.part, *every)

    def _leaf(self, name: str) -> Symbols:
        return unknowns(f"leaf {name}", self.graph.tensor(name).extents, "int8", 0)

    def _zero(self, name: str) -> Symbols:
        """An integer that stands for 0."""
        floats = list(self.part.floats.values())
        inside = [one for one in floats if one.constant is None and one.x not in self.leaves]
        readers = [one for one in floats if one.x == name] or inside
        zeros = {int(zero) for one in readers for zero in one.zero.reshape(-1)}
        if len(zeros) != 1:
            self._refuse("read activations of one zero point")
        extents = self.graph.tensor(name).extents
        return np.ascontiguousarray(np.broadcast_to(numbers(zeros.pop()), extents))

    def _refuse(self, rule: str) -> None:
        raise CertificateError(f"{self.node.label}: an integer operator must {rule}")

    def _of_functions(self) -> RoundingDifference:
        """Functions of one element, by all of its values."""
        part = self.part
        floats = list(part.floats.values())
        if self.leaves != self.node.inputs[:1] or {one.x for one in floats} != {*self.leaves}:
            self._refuse("read the quantised value")
        if any(not has_trait(node.op, Trait.FUNCTION) for node in part.nodes):
            self._refuse("be a function of one quantised value")
        every = {
            one.name: ((_EVERY - one.zero.reshape(())) * one.scale.reshape(())).astype(np.float32) for one in floats
        }
        kind = TensorType("float32", _EVERY.shape)
        names = [name for node in part.nodes for name in node.outputs if name]
        scalars = {name for node in part.nodes for name in node.inputs if name and name not in (*names, *every)}
        if any(part.graph.constants[name].size != 1 for name in scalars):
            self._refuse("read scalar constants")
        graph = part.graph_of((), every)
        graph = graph.replace(types={**graph.types, **dict.fromkeys([*names, *every], kind)})
        real = (self.numbers(graph)[part.value] if part.nodes else every[part.value]).reshape(-1).astype(np.float64)
        if np.isnan(real).any():
            self._refuse("be defined for every value of its operand")
        values = real / float(part.scale)
        rounding = part.rounding(Fraction(0), Fraction(0))
        table = table_of(self.graph, self.node).astype(np.int64)
        made = values_difference(values, lambda place: _exact(real[place]) / part.scale, rounding, table)
        if made is None or made.near > _CLOSE_TABLE:
            self._refuse("give the results of the functions before it up to one unit")
        assert made is not None
        return made

    def _of_two(self, every: _Sides, zero: _Sides, alone: list[_Sides]) -> RoundingDifference:
        """A sum of two factors, for all pairs of elements."""
        factors, parts = [], []
        scales, steps = self.part.known_factors(), [abs(int(step)) for step in self.node.attributes.get("factors", ())]
        for name, one in zip(self.leaves, alone, strict=True):
            factors.append(_factor_of(one, zero, slice(None), scales, [1, *steps]))
            parts.append(self._multiples(name, one, zero))
        real = field.add(alone[0].real["value"], field.subtract(alone[1].real["value"], zero.real["value"]))
        whole = field.add(alone[0].sums["value"], field.subtract(alone[1].sums["value"], zero.sums["value"]))
        if (real != every.real["value"]).any() or (whole != every.sums["value"]).any():
            self._refuse("be a sum of its operands, or a product")
        shift, constant = _shift_of(zero, slice(None), self.part.known_shifts()), _number_of(zero.sums)
        scale = self.part.scale
        exact = (factors[0] / scale, factors[1] / scale, shift / scale)
        sums = parts[0][:, None] + parts[1] + constant
        (other,) = set(every.roundings)
        _require_ends(self.part.rounding(Fraction(0), Fraction(0)), other)
        if any(abs(one - other.factor) > _CLOSE_RATIO * max(exact) for one in exact[:2]):
            self._refuse("have factors in the ratio of its scales")
        made = pair_difference(exact, self.part.rounding(Fraction(0), Fraction(0)), sums, other, (parts[0], parts[1]))
        if made is None:
            self._refuse("give the rounded sums up to one unit")
        assert made is not None
        return made

    def _multiples(self, name: str, one: _Sides, zero: _Sides) -> Any:  # noqa: ANN401  an array
        """What an element adds to the sums of an integer operator, for each of its values."""
        steps = [int(step) for step in self.node.attributes.get("factors", (1, 1))]
        leaf, centre = self._leaf(name), int(self._zero(name)["low"].reshape(-1)[0])
        added = field.subtract(one.sums["value"], zero.sums["value"])
        for step in steps:
            multiples = binary("mul", binary("sub", leaf, numbers(centre), "int32"), numbers(step), "int32")
            if np.isin(added, multiples["value"]).all():
                return (_EVERY - centre) * step
        self._refuse("add multiples of its operands")
        return None


class _Sides:
    """What both sides have for some integers: `real` is what is rounded, `sums` are integers."""

    def __init__(self, comparison: QuantisedComparison, given: Mapping[str, Symbols]) -> None:
        self.real = comparison.part.symbols(comparison.run, given)
        operands, sums = _sums(comparison, given)
        if (sums["form"] == SymbolForm.POLYNOMIAL).any():
            raise CertificateError(f"{comparison.node.label}: sums must stay within int32")
        if sums.size != self.real.size:
            raise CertificateError(f"{comparison.node.label}: results must have {self.real.size} elements")
        self.real, self.sums = self.real.reshape(-1), elements_of(sums).reshape(-1)
        self.groups = np.arange(sums.size) // operands.scales[1] % len(operands.scales[0])
        self.roundings = tuple(_rounding(operands))


def _sums(comparison: QuantisedComparison, given: Mapping[str, Symbols]) -> tuple[IntegerNode, Symbols]:
    """The sums of the integer operator for values of the unknown integers."""
    graph, node = comparison.graph, comparison.node
    inside = between(graph, node.inputs, comparison.leaves)
    names = {name for one in (*inside, node) for name in one.inputs}
    constants = {name: value for name, value in graph.constants.items() if name in names and name not in given}
    values = dict(given)
    if inside:
        outputs = tuple(one.outputs[0] for one in inside)
        part = graph.replace(inputs=comparison.leaves, outputs=outputs, nodes=inside, constants=constants)
        values |= comparison.run(part, given)
    values |= {name: numbers(value) for name, value in constants.items() if name in node.inputs}
    return integer_sums(graph, node, values)


def between(graph: Graph, names: Sequence[str], leaves: Sequence[str]) -> tuple[Node, ...]:
    """The operators of a graph that compute values of integers `leaves` and of constants."""
    members: dict[int, Node] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        if not name or name in leaves or graph.constant(name) is not None:
            continue
        one = graph.producers.get(name)
        if one is None or len(members) > _MOST_NODES:
            raise CertificateError(f"{name}: it must be computed of values that both graphs have")
        if id(one) not in members:
            members[id(one)] = one
            pending += one.inputs
    return tuple(one for one in graph.nodes if id(one) in members)


def _rounding(operands: IntegerNode) -> Iterator[Rounding]:
    _, multiplier, shift = unpack_scale(operands.scales[0])
    zero, low, high = operands.result_bounds
    for m, s in zip(multiplier.tolist(), shift.tolist(), strict=True):
        yield Rounding(Fraction(m, 1 << s), Fraction(0), zero, low, high)


def _of_sums(part: QuantisedPart, every: _Sides, zero: _Sides) -> RoundingDifference:
    """One factor for the sums of each channel, or of each place."""
    total = RoundingDifference()
    cases: dict[Any, tuple[int, int]] = {}
    order = np.argsort(every.groups, kind="stable")
    ends = np.searchsorted(every.groups[order], np.arange(len(every.roundings) + 1))
    factors, shifts = part.known_factors(), part.known_shifts()
    for group, other in enumerate(every.roundings):
        places = order[ends[group] : ends[group + 1]]
        if not len(places):
            continue
        constant = _number_of(zero.sums[places])
        factor = _factor_of(every, zero, places, factors, _DOUBLINGS)
        shift = _shift_of(zero, places, shifts)
        bounds = int(every.sums["low"][places].min()), int(every.sums["high"][places].max())
        case = part.rounding(factor, shift - factor * constant), other
        _require_fit(case[0], other, constant)
        least, most = cases.get(case, bounds)
        cases[case] = min(least, bounds[0]), max(most, bounds[1])
    for (exact, other), (low, high) in cases.items():
        made = difference(exact, other, low, high)
        if made is None:
            raise CertificateError("results must be the rounded sums up to one unit")
        total += made
    return total


def _require_ends(exact: Rounding, other: Rounding) -> None:
    """CertificateError unless two roundings have the same zero point and bounds."""
    ends = [(one.zero, one.low, one.high) for one in (exact, other)]
    if ends[0] != ends[1]:
        raise CertificateError(
            "a zero point and bounds must be {}, {} and {}, got {}, {} and {}".format(*ends[0], *ends[1])
        )


def _require_fit(exact: Rounding, other: Rounding, constant: int) -> None:
    """CertificateError unless a multiplier and a bias are those of an exact rounding but for their
    own rounding.
    """
    _require_ends(exact, other)
    factor = exact.factor or other.factor  # that of weights that are all 0 is not known
    if abs(factor - other.factor) > _CLOSE_FACTOR * factor:
        raise CertificateError(f"a multiplier must be {float(factor)}, got {float(other.factor)}")
    bias = constant + (exact.shift if exact.factor else exact.shift - factor * constant) / factor
    if abs(bias - constant) > _CLOSE_BIAS + _CLOSE_FACTOR * abs(constant):
        raise CertificateError(f"a bias must be {float(bias)}, got {constant}")


def _factor_of(
    every: _Sides, zero: _Sides, places: Places, known_ones: Mapping[int, Fraction], divisors: Sequence[int]
) -> Fraction:
    """The factor by which what is rounded grows with the sums, at places: a product of scales."""
    real = field.subtract(every.real["value"][places], zero.real["value"][places])
    sums = field.subtract(every.sums["value"][places], zero.sums["value"][places])
    if not sums.any() and not real.any():
        return Fraction(0)
    first = int(np.argmax(sums != 0))
    unit = int(real[first]) * pow(int(sums[first]), -1, field.PRIME) % field.PRIME if sums[first] else 0
    if (field.multiply(sums, np.full_like(sums, unit)) == real).all():
        for divisor in divisors:
            number = known_ones.get(unit * divisor % field.PRIME)
            if number is not None:
                return number / divisor
    raise CertificateError("sums must be those of the float operators, by one factor that is a product of scales")


def _shift_of(zero: _Sides, places: Places, known_ones: Mapping[int, Fraction]) -> Fraction:
    """What is rounded where all integers stand for 0."""
    (value, *others) = np.unique(zero.real["value"][places])
    number = known_ones.get(int(value))
    if others or number is None:
        raise CertificateError("a bias must be a constant of each channel")
    return number


def _number_of(sums: Symbols) -> int:
    """The sums where all integers stand for 0."""
    (value, *others) = np.unique(sums["low"])
    if others or not known(sums).all():
        raise CertificateError("a bias must be a number of each channel")
    return int(value)
