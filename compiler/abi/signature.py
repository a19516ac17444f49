"""The signature of a kernel: its arguments and symbolic extents. Every object carries it as JSON.

An extent is a number, the name of a symbolic extent, or a tuple `(operator, left, right)` of
extents. `Signature.scalars` lists the names in the order in which the kernel's body takes them.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vdla.compiler.abi.reserved_names import is_reserved

ExtentExpr = int | str | tuple[str, Any, Any]

EXTENT_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}
"""The operators of extents; division by 0 gives 0, as in the IR."""

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One array of the caller; `output` if the kernel writes it."""

    name: str
    dtype: str
    shape: tuple[ExtentExpr, ...]
    output: bool

    @property
    def static(self) -> tuple[int, ...] | None:
        """The shape, or None if an extent is symbolic."""
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
        """The kernel's C symbol: its name, with `_kernel` appended if that name is reserved."""
        return f"{self.name}_kernel" if is_reserved(self.name) else self.name

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The arguments that the kernel only reads."""
        return tuple(argument for argument in self.arguments if not argument.output)

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that the kernel writes."""
        return tuple(argument for argument in self.arguments if argument.output)

    def source(self, scalar: str) -> tuple[int, int]:
        """The argument and dimension that define a symbolic extent; an input is preferred."""
        candidates = [
            (argument.output, position, dimension)
            for position, argument in enumerate(self.arguments)
            for dimension, extent in enumerate(argument.shape)
            if extent == scalar
        ]
        _, position, dimension = min(candidates)
        return position, dimension

    def to_json(self) -> str:
        """The signature as JSON text."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Signature:
        """The inverse of `to_json`; ValueError, KeyError or TypeError for any other text."""
        raw = json.loads(text)
        arguments = tuple(
            Argument(a["name"], a["dtype"], tuple(_extent(extent) for extent in a["shape"]), a["output"])
            for a in raw["arguments"]
        )
        return Signature(raw["name"], arguments, tuple(raw["scalars"]))


def signature_symbol(symbol: str) -> str:
    """The C symbol of the constant that holds the signature of kernel `symbol` as JSON."""
    return f"{symbol}_signature"


def _extent(raw: int | str | list[Any]) -> ExtentExpr:
    """An extent from JSON, where tuples are lists."""
    if isinstance(raw, (int, str)):
        return raw
    op, a, b = raw
    return op, _extent(a), _extent(b)


def evaluate_extent(extent: ExtentExpr, scalars: Mapping[str, int]) -> int:
    """The value of an extent, given the symbolic ones."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return scalars[extent]
    op, a, b = extent
    return EXTENT_OPERATORS[op](evaluate_extent(a, scalars), evaluate_extent(b, scalars))


def format_extent(extent: ExtentExpr) -> str:
    """An extent in Python syntax."""
    if isinstance(extent, int | str):
        return str(extent)
    op, a, b = extent
    if op not in _SYMBOLS:
        return f"{op}({format_extent(a)}, {format_extent(b)})"
    return " ".join((_operand(a), _SYMBOLS[op], _operand(b)))


def _operand(extent: ExtentExpr) -> str:
    text = format_extent(extent)
    return f"({text})" if isinstance(extent, tuple) and extent[0] in _SYMBOLS else text


def format_shape(shape: Sequence[ExtentExpr]) -> str:
    """A shape in Python's tuple syntax."""
    inner = ", ".join(format_extent(extent) for extent in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"
