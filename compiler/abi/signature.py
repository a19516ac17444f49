"""What a kernel wants to be called with, without anything of the compiler: it travels inside of the object, as text.

An extent is a number, the name of a symbolic extent, or `(operator, left, right)` over such. Names are in the order in
which the kernel's body takes their values.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vdla.compiler.abi.reserved_names import is_taken
from vdla.support.errors import Error

if TYPE_CHECKING:
    from vdla.compiler import ir

Extent = int | str | tuple[str, Any, Any]

OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}
"""What an extent may be made with."""

SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


class SignatureError(Error, ValueError):
    """A function that cannot be called from C."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One array of the caller; `output` where the kernel writes it."""

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    output: bool

    @property
    def static(self) -> tuple[int, ...] | None:
        """The shape, where it is all numbers."""
        numbers = tuple(extent for extent in self.shape if isinstance(extent, int))
        return numbers if len(numbers) == len(self.shape) else None


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of a kernel in order, and the names of its symbolic extents."""

    name: str
    arguments: tuple[Argument, ...]
    scalars: tuple[str, ...] = ()

    @property
    def symbol(self) -> str:
        """What the kernel is called in C: its name, unless C has that already."""
        return f"{self.name}_kernel" if is_taken(self.name) else self.name

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The arguments that are only read."""
        return tuple(argument for argument in self.arguments if not argument.output)

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that are written."""
        return tuple(argument for argument in self.arguments if argument.output)

    def source(self, scalar: str) -> tuple[int, int]:
        """The argument and the dimension from which a symbolic extent is known: of an input, if one has it."""
        places = [
            (argument.output, position, dimension)
            for position, argument in enumerate(self.arguments)
            for dimension, extent in enumerate(argument.shape)
            if extent == scalar
        ]
        _, position, dimension = min(places)
        return position, dimension

    @property
    def text(self) -> str:
        """All of it as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


def from_text(text: str) -> Signature:
    """The signature that `Signature.text` was."""
    raw = json.loads(text)
    arguments = tuple(
        Argument(a["name"], a["dtype"], tuple(_tuples(extent) for extent in a["shape"]), a["output"])
        for a in raw["arguments"]
    )
    return Signature(raw["name"], arguments, tuple(raw["scalars"]))


def _tuples(extent: int | str | list[Any]) -> Extent:
    if isinstance(extent, (int, str)):
        return extent
    op, a, b = extent
    return op, _tuples(a), _tuples(b)


def value(extent: Extent, scalars: Mapping[str, int]) -> int:
    """The number that an extent is, given the symbolic ones."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return scalars[extent]
    op, a, b = extent
    return OPERATORS[op](value(a, scalars), value(b, scalars))


def extent_text(extent: Extent) -> str:
    """An extent as one would write it."""
    if isinstance(extent, int | str):
        return str(extent)
    op, a, b = extent
    if op not in SYMBOLS:
        return f"{op}({extent_text(a)}, {extent_text(b)})"
    return " ".join((_inner(a), SYMBOLS[op], _inner(b)))


def _inner(extent: Extent) -> str:
    text = extent_text(extent)
    return f"({text})" if isinstance(extent, tuple) and extent[0] in SYMBOLS else text


def shape_text(shape: Sequence[Extent]) -> str:
    """A shape as a tuple is written."""
    inner = ", ".join(extent_text(extent) for extent in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


# --- from a function -------------------------------------------------------------------------------------------------


def signature_of(fn: ir.Function) -> Signature:
    """The signature of a function, scheduled or lowered.

    Raises:
        SignatureError: a name that is none in C, an element type without a number, a symbolic extent from nowhere.
    """
    from vdla.compiler.abi.codes import DTYPES
    from vdla.compiler.interpret.interpreter import output_names

    if not re.fullmatch(r"[A-Za-z]\w*", fn.name, re.ASCII):
        rule = "name of the function must be an identifier of C, a letter first"
        raise SignatureError(f"native: {rule}, got {fn.name!r}")
    outputs = output_names(fn)
    arguments = []
    for name in fn.params:
        buffer = fn.buffers[name]
        if buffer.dtype not in DTYPES:
            raise SignatureError(f"{fn.name}: dtype of {name} must be one of {', '.join(DTYPES)}, got {buffer.dtype}")
        shape = tuple(_extent(f"{fn.name}: extent of {name}", extent) for extent in buffer.shape)
        arguments.append(Argument(name, buffer.dtype, shape, name in outputs))
    found = Signature(fn.name, tuple(arguments), fn.scalars)
    for scalar in fn.scalars:
        if not any(scalar in argument.shape for argument in arguments):
            raise SignatureError(f"{fn.name}: {scalar} must be a whole dimension of some parameter, got none")
    return found


def _extent(where: str, extent: ir.Extent) -> Extent:
    from vdla.compiler import ir

    match extent:
        case int():
            return extent
        case ir.Var(name=name):
            return name
        case ir.Const(value=number):
            return int(number)
        case ir.Binary(op=op, a=a, b=b) if op in OPERATORS:
            return op, _extent(where, a), _extent(where, b)
    from vdla.compiler.ir.printer import expr_text

    raise SignatureError(f"{where} must be made with {', '.join(OPERATORS)}, got {expr_text(extent)}")
