# SPDX-License-Identifier: Apache-2.0
"""Certificates: a program and its expression, evaluated on symbols, and compared.

Both sides get the same unknown inputs. What they have in common is the packing of these inputs and
the meaning of operations on symbols; schedules, tiles, addresses and instructions are on one side
only. Two results that differ for some inputs have the same element of the field with a probability
of at most the degree of their polynomials, and the number of functions in them, over 2^61.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, product
from typing import TypeGuard, overload

import numpy as np

from vdla.compiler import ir, te
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.nest_certificate import NestCertificate, certify_nest
from vdla.compiler.certificates.network_certificate import CertifiableNetwork, NetworkCertificate, certify_network
from vdla.compiler.certificates.program_run import run_program
from vdla.compiler.certificates.sum_bounds import SumBounds
from vdla.compiler.certificates.symbols import (
    OPAQUE,
    SYMBOL,
    CertificateError,
    Symbols,
    numbers,
    type_bounds,
    unknowns,
)
from vdla.compiler.ir import GridKernel
from vdla.compiler.layer_programs.layer_program import LayerProgram
from vdla.compiler.map import MappedOperator, gather
from vdla.compiler.operators.vdla.operator import Operator
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits, Target
from vdla.compiler.te import Stage
from vdla.compiler.te.tensors import placeholders_of
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.program import Program
from vdla.support.integers import is_int

_Inputs = Mapping[str, Symbols]
_MOST_CORNERS = 16  # of the box of all inputs
_MOST_BISECTIONS = 64  # runs of both sides, to find what a difference depends on


@dataclass(frozen=True, slots=True)
class Difference:
    """A result that a program does not compute as its expression does.

    `element` is its plain index, `terms` are elements of inputs that suffice for it, with all
    others 0; `instruction` stores it, for the source line `line`; it is -1 if none does.
    """

    element: tuple[int, ...]
    terms: Mapping[str, tuple[tuple[int, ...], ...]]
    instruction: int
    line: str

    def __str__(self) -> str:
        parts = [f"{name}[{', '.join(map(str, index))}]" for name, places in self.terms.items() for index in places]
        terms = ", ".join(parts) or "all inputs 0"
        stored = f"instruction {self.instruction} stores it, for {self.line or 'no source line'}"
        return (
            f"result[{', '.join(map(str, self.element))}] differs, already with {terms} alone; "
            f"{stored if self.instruction >= 0 else 'no instruction stores it'}"
        )


@dataclass(frozen=True, slots=True)
class Overflow:
    """Sums of a type that leave it for some inputs, where the expression wraps them.

    `low` and `high` bound them. `example` are inputs all of whose elements have one value, for
    which a sum reaches `reached`; it is empty if no such inputs leave the type.
    """

    dtype: str
    low: int
    high: int
    example: Mapping[str, int]
    reached: int

    def __str__(self) -> str:
        known = f"sums of {self.dtype} may reach {self.low:,} to {self.high:,}, which wrap"
        values = ", ".join(f"{name} = {value}" for name, value in self.example.items())
        return f"{known}, such as {self.reached:,} for {values}" if self.example else known


@dataclass(frozen=True, slots=True)
class Certificate:
    """The comparison of a program with an expression: `results` elements, `differing` of them.

    `program` is the hash of the program, `expression` one of the expression's text. It holds if
    nothing differs. `sums` are the least and the greatest value of the expression's sums by their
    type, for all inputs; `overflows` are those that may leave it.
    """

    name: str
    program: str
    expression: str
    seed: int
    results: int
    differing: int
    difference: Difference | None = None
    sums: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    overflows: tuple[Overflow, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the program computes its expression, for all inputs."""
        return not self.differing

    def raise_if_bad(self) -> None:
        """CertificateError with the difference unless it holds."""
        if not self.holds:
            raise CertificateError(str(self))

    def __str__(self) -> str:
        if self.holds:
            proven = (
                f"certify {self.name}: program {self.program} computes expression {self.expression} for all inputs; "
                f"{self.results:,} results, prime 2^61 - 1, seed {self.seed}"
            )
            return "; ".join([proven, *map(str, self.overflows)])
        shown = f"certify {self.name}: {self.differing:,} of {self.results:,} results differ"
        return shown if self.difference is None else f"{shown}; {self.difference}"

    __repr__ = __str__


@overload
def certify(
    operator: Operator | MappedOperator,
    expression: te.Tensor | None = None,
    *,
    seed: int = 0,
    program: Program | None = None,
    explain: bool = True,
) -> Certificate: ...
@overload
def certify(
    operator: LayerProgram,
    expression: te.Tensor,
    *,
    seed: int = 0,
    program: Program | None = None,
    explain: bool = True,
) -> Certificate: ...
@overload
def certify(operator: CertifiableNetwork, *, seed: int = 0) -> NetworkCertificate: ...
@overload
def certify(
    operator: Schedule | ir.Function | Sequence[GridKernel],
    expression: ir.Function | None = None,
    *,
    seed: int = 0,
    target: Target | GridLimits | str | None = None,
    extents: Mapping[str, int] | None = None,
) -> NestCertificate: ...
def certify(
    operator: Operator
    | MappedOperator
    | LayerProgram
    | CertifiableNetwork
    | Schedule
    | ir.Function
    | Sequence[GridKernel],
    expression: te.Tensor | ir.Function | None = None,
    *,
    seed: int = 0,
    program: Program | None = None,
    explain: bool = True,
    target: Target | GridLimits | str | None = None,
    extents: Mapping[str, int] | None = None,
) -> Certificate | NetworkCertificate | NestCertificate:
    """Whether the program of a template or of a mapping computes its plain expression.

    `expression` is what the result must be, over the same plain inputs; by default that of the
    operator. `program` takes the place of the operator's own, with the same tensors. Without
    `explain`, a certificate that does not hold has no `difference`.

    A `LayerProgram`, as the author of an extension writes it, is compared with `expression`, the
    output of the layer's definition.

    Of a network that `vdla.compile` made, every program is certified against the integer operators
    of its region, and the result is a `NetworkCertificate`.

    Of a schedule, its loop nest is certified against the function before all primitives, and the
    result is a `NestCertificate`; `target` lowers the nest first, for a CPU or its name, or, as
    `GridLimits`, to the kernels of a GPU. A function, or kernels, are certified against the
    function `expression`; a function that `target` lowers, by default against itself. `extents`
    are numbers for symbolic extents.

    Raises:
        CertificateError: something that is no operator, or what has no meaning on symbols.
        TargetError: an unknown name of a CPU.
        PassError: a loop nest that cannot be lowered for `target`.
    """
    if not is_int(seed) or seed < 0:
        raise CertificateError(f"certify: seed must be an integer from 0, got {seed!r}")
    if isinstance(operator, Schedule | ir.Function) or _are_kernels(operator):
        return _certify_nest(operator, expression, target, extents, seed)
    _require_none("target", target, "a schedule or a function")
    _require_none("extents", extents, "a schedule or a function")
    if isinstance(expression, ir.Function):
        raise CertificateError("certify: expression must be a tensor of te.compute, got Function")
    if isinstance(operator, CertifiableNetwork):
        return certify_network(operator, seed)
    sides = _sides_of(operator, expression, program)
    inputs = sides.inputs(seed)
    differs = sides.differs(inputs)
    first = None
    if explain and differs.any():
        first = _difference(sides, inputs, tuple(int(i) for i in np.argwhere(differs)[0]))
    return Certificate(
        name=sides.name,
        program=sides.program.hash,
        expression=hashlib.sha256(str(sides.plain).encode()).hexdigest()[:16],
        seed=seed,
        results=differs.size,
        differing=int(differs.sum()),
        difference=first,
        sums=dict(sides.sums.of_types),
        overflows=tuple(_overflows(sides)),
    )


def _are_kernels(operator: object) -> TypeGuard[Sequence[GridKernel]]:
    return isinstance(operator, Sequence) and bool(operator) and all(isinstance(one, GridKernel) for one in operator)


def _certify_nest(
    nest: Schedule | ir.Function | Sequence[GridKernel],
    function: object,
    target: Target | GridLimits | str | None,
    extents: Mapping[str, int] | None,
    seed: int,
) -> NestCertificate:
    """The certificate of a loop nest, by default against itself before it was scheduled or
    lowered.
    """
    if isinstance(target, str):
        target = Target.named(target)
    if function is None and isinstance(nest, ir.Function) and target is None:
        rule = "expression must be the Function that a function computes, or target must lower it, got neither"
        raise CertificateError(f"certify {nest.name}: {rule}")
    if function is None:
        function = nest.unscheduled if isinstance(nest, Schedule) else nest
    if not isinstance(function, ir.Function):
        raise CertificateError(
            f"certify: expression must be the Function that the loop nest computes, got {type(function).__name__}"
        )
    if target is not None and not isinstance(target, Target | GridLimits):
        rule = "target must be a Target, the name of a CPU, or GridLimits"
        raise CertificateError(f"certify: {rule}, got {type(target).__name__}")
    return certify_nest(nest.fn if isinstance(nest, Schedule) else nest, function, target, extents, seed)


def _require_none(name: str, value: object, of: str) -> None:
    if value is not None:
        raise CertificateError(f"certify: {name} must be given for {of} alone, got {value}")


def _sides_of(operator: object, expression: te.Tensor | None, program: Program | None) -> _Sides:
    """The sides of an operator, or of another program in its place."""
    if not isinstance(operator, Operator | MappedOperator | LayerProgram):
        raise CertificateError(
            "certify: operator must be of a template or of map_expression, a compiled network, a layer's program, "
            f"or a schedule, got {type(operator).__name__}"
        )
    if program is not None:
        _require_tensors(program, operator.program)
    used = operator.program if program is None else program
    if isinstance(operator, LayerProgram):
        if not isinstance(expression, te.Tensor):
            got = type(expression).__name__
            raise CertificateError(f"certify: expression must be the output of the layer's definition, got {got}")
        packing = {packed.name: packed for packed in operator.packing}
        return _Sides((used.name, used.name), used, packing, operator.unpacking, operator.unpacking, expression)
    mapped = operator.mapped if isinstance(operator, Operator) else operator
    wanted = _wanted(mapped)
    expression = wanted if expression is None else expression
    return _Sides(
        (operator.name, mapped.name), used, mapped.packing, mapped.unpacking, wanted, expression, mapped.reading
    )


class _Sides:
    """A program and its expression, as functions of plain inputs; the result is like `wanted`.
    `names` are that of the operator and that of the function; `reading` has the result as a
    computation over what `unpacking` gives, if that is not the result.
    """

    def __init__(
        self,
        names: tuple[str, str],
        program: Program,
        packing: Mapping[str, te.Tensor],
        unpacking: te.Tensor,
        wanted: te.Tensor,
        result: te.Tensor,
        reading: te.Tensor | None = None,
    ) -> None:
        _require_result(result, wanted)
        self.name, self.program = names[0], program
        self.sums = SumBounds()
        self.packing, self.unpacking = packing, unpacking
        self._reading = None if reading is None else te.create_function(placeholders_of(reading), [reading], names[1])
        self.plain = te.create_function(placeholders_of(result), [result], names[1])
        self.sources = {source_of(tensor).name: source_of(tensor) for tensor in self.packing.values()}
        for tensor in placeholders_of(result):
            _require_like(tensor, self.sources.setdefault(tensor.name, tensor), f"input {tensor.name}")

    def inputs(self, seed: int) -> dict[str, Symbols]:
        """Unknown plain inputs."""
        return {name: unknowns(name, tensor.shape, tensor.dtype, seed) for name, tensor in self.sources.items()}

    def of_program(self, inputs: _Inputs) -> Symbols:
        """The plain result of the program."""
        packed = {name: _gathered(tensor, inputs[source_of(tensor).name]) for name, tensor in self.packing.items()}
        outputs = run_program(self.program, packed)
        result = _gathered(self.unpacking, outputs[source_of(self.unpacking).name])
        return result if self._reading is None else _evaluated(self._reading, (result,), SumBounds())

    def of_expression(self, inputs: _Inputs) -> Symbols:
        """The plain result of the expression."""
        return _evaluated(self.plain, [inputs[name] for name in self.plain_inputs()], self.sums)

    def plain_inputs(self) -> tuple[str, ...]:
        """The names of the inputs of the expression."""
        return self.plain.params[: -len(ir.output_names(self.plain))]

    def differs(self, inputs: _Inputs) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Where the results of both sides are different symbols."""
        return np.asarray(self.of_program(inputs)["value"] != self.of_expression(inputs)["value"])


def _evaluated(fn: ir.Function, inputs: Sequence[Symbols], sums: SumBounds) -> Symbols:
    """The result of a function of symbols in the order of its parameters."""
    outputs = evaluate(fn, dict(zip(fn.params, inputs, strict=False)), sums)
    return next(iter(outputs.values()))


def _wanted(mapped: MappedOperator) -> te.Tensor:
    """The plain result of a mapping, or the elements of it that are wanted."""
    result = mapped.form.output if mapped.keys is None else mapped.keys.result
    return result if mapped.view is None else mapped.view


def _require_result(result: object, wanted: te.Tensor) -> None:
    """CertificateError unless it is computed, and has the shape and type of the operator's."""
    if not isinstance(result, te.Tensor) or not isinstance(result.stage, Stage):
        raise CertificateError(
            f"certify: expression must be a tensor of te.compute, got {getattr(result, 'name', type(result).__name__)}"
        )
    _require_like(result, wanted, "result")


def _require_like(got: te.Tensor, wanted: te.Tensor, what: str) -> None:
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        shown = [f"{tensor.dtype}{list(tensor.shape)}" for tensor in (wanted, got)]
        raise CertificateError(
            f"certify: {what} of the expression must be {shown[0]}, as of the operator, got {shown[1]}"
        )


def _require_tensors(program: Program, expected: Program) -> None:
    """CertificateError unless a program has the machine and the tensors of the operator's own."""
    if not isinstance(program, Program):
        raise CertificateError(f"certify: program must be a Program, got {type(program).__name__}")
    if program.config.fingerprint != expected.config.fingerprint:
        raise CertificateError(
            f"certify: program must be for {expected.config.name} ({expected.config.fingerprint}), "
            f"got one for {program.config.name} ({program.config.fingerprint})"
        )
    described = [
        {tensor.name: (tensor.role, tensor.shape, tensor.dtype) for tensor in one.tensors if tensor.data is None}
        for one in (expected, program)
    ]
    if described[0] != described[1]:
        names = [", ".join(sorted(tensors)) for tensors in described]
        raise CertificateError(f"certify: program must have the tensors {names[0]} of the operator, got {names[1]}")


def source_of(tensor: te.Tensor) -> te.Tensor:
    """What a packed tensor is gathered from."""
    assert isinstance(tensor.stage, Stage)
    (source,) = tensor.stage.reads
    return source


def _gathered(tensor: te.Tensor, array: Symbols) -> Symbols:
    packed = gather(tensor, array.view(OPAQUE), lambda value: numbers(value).view(OPAQUE))
    return packed.view(SYMBOL)


# --- sums that wrap -------------------------------------------------------------------------------


def _overflows(sides: _Sides) -> Iterator[Overflow]:
    """The types that sums of the expression may leave."""
    for dtype, (low, high) in sides.sums.of_types.items():
        least, most = type_bounds(dtype)
        if low < least or high > most:
            yield Overflow(dtype, low, high, *_example(sides, dtype))


def _example(sides: _Sides, dtype: str) -> tuple[dict[str, int], int]:
    """Inputs at the ends of their types for which a sum leaves its type furthest, and that sum."""
    least, most = type_bounds(dtype)
    example: dict[str, int] = {}
    reached = 0
    for ends in islice(product((0, 1), repeat=len(sides.plain_inputs())), _MOST_CORNERS):
        tensors = {name: sides.sources[name] for name in sides.plain_inputs()}
        values = {name: type_bounds(one.dtype)[end] for (name, one), end in zip(tensors.items(), ends, strict=True)}
        sums = SumBounds()
        numbered = {name: np.broadcast_to(numbers(values[name]), one.shape) for name, one in tensors.items()}
        evaluate(sides.plain, numbered, sums)
        outside = [bound for bound in sums.of_types[dtype] if not least <= bound <= most]
        furthest = max(outside, key=abs, default=0)
        if abs(furthest) > abs(reached):
            example, reached = values, furthest
    return example, reached


# --- what differs ---------------------------------------------------------------------------------


def _difference(sides: _Sides, inputs: _Inputs, element: tuple[int, ...]) -> Difference:
    """The smallest inputs for which an element differs, and the instruction that stores it."""
    runs = iter(range(_MOST_BISECTIONS))

    def differs(some: _Inputs) -> bool:
        return next(runs, None) is not None and bool(sides.differs(some)[element])

    kept = dict(inputs)
    for name in inputs:
        kept[name] = _fewest(inputs[name], partial(_with, differs, kept, name))
    terms = {
        name: tuple(tuple(map(int, index)) for index in np.argwhere(array["value"] != 0)[:4])
        for name, array in kept.items()
    }
    instruction, line = _storing(sides, element)
    return Difference(element, {name: places for name, places in terms.items() if places}, instruction, line)


def _with(differs: Callable[[_Inputs], bool], inputs: _Inputs, name: str, part: Symbols) -> bool:
    return differs({**inputs, name: part})


def _fewest(array: Symbols, differs: Callable[[Symbols], bool]) -> Symbols:
    """An array of as few unknowns as halving leaves, the others 0, for which both sides differ."""
    places = np.arange(array.size)
    zeros = np.broadcast_to(numbers(0), array.shape)
    if differs(zeros):
        return zeros
    while len(places) > 1:
        half = len(places) // 2
        chosen = next((part for part in (places[:half], places[half:]) if differs(_only(array, part))), None)
        if chosen is None:
            break
        places = chosen
    return _only(array, places)


def _only(array: Symbols, places: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Symbols:
    part = np.broadcast_to(numbers(0), array.shape).copy()
    part.flat[places] = array.flat[places]
    return part


def _storing(sides: _Sides, element: tuple[int, ...]) -> tuple[int, str]:
    """The last instruction that stores an element of the plain result, and its line."""
    place = _packed_place(sides, element)
    program = sides.program
    output = next(i for i, tensor in enumerate(program.tensors) if tensor.role == "output")
    last = -1
    for index in _stores(program, output):
        if place in _stored(program, index):
            last = index
    source = int(program.source_of[last]) if last >= 0 else -1
    return last, program.source_lines[source].strip() if source >= 0 else ""


def _packed_place(sides: _Sides, element: tuple[int, ...]) -> int:
    """The place of an element in the flat output of the program."""
    source = source_of(sides.unpacking)
    places = numbers(np.arange(int(np.prod(source.shape))).reshape(source.shape))
    return int(_gathered(sides.unpacking, places)["low"][element])


def _stores(program: Program, output: int) -> Iterator[int]:
    opcodes = program.columns[:, COL["opcode"]]
    yield from map(int, np.flatnonzero((opcodes == Opcode.STORE) & (program.tensor_of == output)))


def _stored(program: Program, index: int) -> range | set[int]:
    """The places of the elements that a STORE writes."""
    row = {name: int(program.columns[index, place]) for name, place in COL.items()}
    tensor = program.tensors[int(program.tensor_of[index])]
    bits = tensor.nbytes * 8 // int(np.prod(tensor.shape))
    beat, entry = program.config.axi_bytes * 8 // bits, program.config.out_entry_bytes * 8 // bits
    begins = [
        (row["dram"] + z * row["z_stride"] + y * row["y_stride"]) * beat
        for z in range(row["z_size"])
        for y in range(row["y_size"])
    ]
    return {begin + k for begin in begins for k in range(row["x_size"] * entry)}
