# SPDX-License-Identifier: Apache-2.0
"""The trace of a schedule: the primitives applied, as data and as Python that applies them again.

One decorator records every primitive. The names that `split`, `fuse` and `tile` chose are part of
the record; all other names follow from the function, so a replay on the same function is exact.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from vdla.compiler import ir
from vdla.compiler.analysis.independence import check_concurrent_loops
from vdla.compiler.analysis.tree import ScheduleError, is_unchecked
from vdla.compiler.schedule.blockize import check_tensorized
from vdla.compiler.tensorize import Intrinsic
from vdla.support.integers import to_python

if TYPE_CHECKING:
    from vdla.compiler.schedule.schedule import Schedule

_RESULTS = {"split": "names", "fuse": "name", "tile": "names"}  # the parameter for the names that a primitive returns
_INTRINSICS = "intrinsics"
_FRAME = (
    "from vdla import Schedule",
    "s = Schedule(fn)",
    "return s",
)  # the lines around the primitives
_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class PrimitiveCall:
    """One primitive with its arguments."""

    name: str
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def values(self) -> tuple[Any, ...]:
        """All arguments."""
        return (*self.args, *self.keywords.values())


@dataclass(frozen=True, slots=True)
class ScheduleTrace:
    """The primitives applied to a function; prints as lines that apply them to a schedule `s`."""

    steps: tuple[PrimitiveCall, ...] = ()

    def __iter__(self) -> Iterator[PrimitiveCall]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """One line for each primitive."""
        intrinsics = self.intrinsics
        return [_call_text(step, intrinsics) for step in self.steps]

    @property
    def intrinsics(self) -> dict[str, Intrinsic]:
        """The intrinsics used, by name; a number is appended to a name already taken."""
        used = [value for step in self.steps for value in step.values() if isinstance(value, Intrinsic)]
        different = list({id(intrinsic): intrinsic for intrinsic in used}.values())
        named: dict[str, Intrinsic] = {}
        for intrinsic in different:
            choices = (intrinsic.name, *(f"{intrinsic.name}_{number}" for number in range(2, len(different) + 1)))
            named[next(name for name in choices if name not in named)] = intrinsic
        return named

    def python(self) -> str:
        """A Python function from the function, and intrinsics by name, to its schedule."""
        given = f"fn, {_INTRINSICS}" if self.intrinsics else "fn"
        lines = [f"def schedule({given}):", "    s = Schedule(fn)", *(f"    {line}" for line in self.lines())]
        return "\n".join(["from vdla import Schedule", "", "", *lines, "    return s", ""])


# --- recording ------------------------------------------------------------------------------------


def primitive(
    function: Callable[Concatenate[ir.Function, _P], ir.Function],
) -> Callable[Concatenate[Schedule, _P], None]:
    """A primitive, from a function to a function, as a method of Schedule."""

    @wraps(function)
    def method(self: Schedule, /, *args: _P.args, **keywords: _P.kwargs) -> None:
        self.fn = function(self.fn, *args, **keywords)

    return recorded(method)


def naming_primitive(
    function: Callable[Concatenate[ir.Function, _P], tuple[ir.Function, _R]],
) -> Callable[Concatenate[Schedule, _P], _R]:
    """The same of a primitive that also gives the names of what is new."""

    @wraps(function)
    def method(self: Schedule, /, *args: _P.args, **keywords: _P.kwargs) -> _R:
        self.fn, result = function(self.fn, *args, **keywords)
        return result

    return recorded(method)


def recorded(method: Callable[Concatenate[Schedule, _P], _R]) -> Callable[Concatenate[Schedule, _P], _R]:
    """Decorate a method of Schedule that rewrites `fn`: record it, or restore `fn` if it raises.

    A schedule without checks is not recorded either.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def applied(self: Schedule, *args: _P.args, **keywords: _P.kwargs) -> _R:
        if is_unchecked():
            return method(self, *args, **keywords)
        before, bound = self.fn, signature.bind(self, *args, **keywords)
        where = f"{method.__name__} of {bound.args[1] if len(bound.args) > 1 else ''}"
        try:
            result = method(self, *args, **keywords)
            steps = check_tensorized(self.fn, where, self.checked_steps)
            loops = check_concurrent_loops(self.fn, where, self.checked_loops)
        except BaseException:
            self.fn = before
            raise
        self.checked_steps, self.checked_loops = steps, loops
        step = _call_of(signature, method.__name__, bound, result)
        self.trace = ScheduleTrace((*self.trace.steps, step))
        return result

    applied.__dict__["primitive"] = True
    return cast("Callable[Concatenate[Schedule, _P], _R]", applied)


def is_primitive(method: object) -> bool:
    """Whether an attribute of Schedule is a recorded primitive."""
    return getattr(method, "primitive", False) is True


def _call_of(signature: inspect.Signature, name: str, bound: inspect.BoundArguments, result: object) -> PrimitiveCall:
    """The record of a call: required arguments by position, others by name if not default."""
    arguments = dict(list(bound.arguments.items())[1:])
    if name in _RESULTS:
        arguments[_RESULTS[name]] = result
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    for key, value in arguments.items():
        parameter = signature.parameters[key]
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.default is parameter.empty:
            args.append(to_python(value))
        elif value != parameter.default:
            keywords[key] = to_python(value)
    return PrimitiveCall(name, tuple(args), keywords)


# --- text -----------------------------------------------------------------------------------------


def _call_text(step: PrimitiveCall, intrinsics: Mapping[str, Intrinsic]) -> str:
    """`s.split("i", factor=4, names=("i_o", "i_i"))`."""
    args = [_value_text(step.name, value, intrinsics) for value in step.args]
    args += [f"{key}={_value_text(step.name, value, intrinsics)}" for key, value in step.keywords.items()]
    return f"s.{step.name}({', '.join(args)})"


def _value_text(name: str, value: object, intrinsics: Mapping[str, Intrinsic]) -> str:
    """An argument as Python: a literal, or an intrinsic by name."""
    known = next((key for key, intrinsic in intrinsics.items() if intrinsic is value), None)
    if known is not None:
        return f"{_INTRINSICS}[{_quoted(known)}]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple) and len(value) > 1:
        return f"({', '.join(_value_text(name, item, intrinsics) for item in value)})"
    try:
        if ast.literal_eval(repr(value)) == value:
            return repr(value)
    except (ValueError, SyntaxError):
        pass
    raise ScheduleError(f"trace: an argument of {name} must be a literal or an intrinsic to be written, got {value!r}")


def _quoted(text: str) -> str:
    """A string literal, in double quotes if it is printable."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


# --- reading --------------------------------------------------------------------------------------


def parse_trace(
    text: str, primitives: Mapping[str, inspect.Signature], intrinsics: Mapping[str, Intrinsic]
) -> ScheduleTrace:
    """The trace that `str` or `python` wrote. The text is parsed, not executed."""
    try:
        body = ast.parse(text).body
        lines = [line for stmt in body for line in (stmt.body if isinstance(stmt, ast.FunctionDef) else [stmt])]
        return ScheduleTrace(
            tuple(_parse_call(line, primitives, intrinsics) for line in lines if ast.unparse(line) not in _FRAME)
        )
    except ScheduleError:
        raise
    except (RecursionError, MemoryError) as error:
        raise ScheduleError("replay: the text must be Python, got an expression that is nested too deep") from error
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        fault = f"an error in line {line}" if line else error
        raise ScheduleError(f"replay: the text must be Python, got {fault}") from error


def _parse_call(
    stmt: ast.stmt, primitives: Mapping[str, inspect.Signature], intrinsics: Mapping[str, Intrinsic]
) -> PrimitiveCall:
    """The primitive that a line applies."""
    where, text = f"replay: line {stmt.lineno}", ast.unparse(stmt)
    match stmt:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("s"), name), args, keywords)) if name in primitives:
            values = tuple(_parse_argument(arg, where, intrinsics) for arg in args)
            named = {key.arg or "**": _parse_argument(key.value, where, intrinsics) for key in keywords}
            try:
                primitives[name].bind(None, *values, **named)
            except TypeError as error:
                raise ScheduleError(f"{where}: the arguments must be those of {name}, got {text}: {error}") from error
            return PrimitiveCall(name, values, named)
    raise ScheduleError(f"{where} must apply a primitive to s, got {text}")


def _parse_argument(expr: ast.expr, where: str, intrinsics: Mapping[str, Intrinsic]) -> Any:  # noqa: ANN401  any literal
    """The value of an argument."""
    match expr:
        case ast.Subscript(ast.Name("intrinsics"), ast.Constant(str() as name)):
            if name not in intrinsics:
                known = ", ".join(intrinsics) or "none"
                raise ScheduleError(f"{where}: the intrinsic must be one of those given ({known}), got {name}")
            return intrinsics[name]
    try:
        return ast.literal_eval(expr)
    except (ValueError, TypeError) as error:
        raise ScheduleError(f"{where}: an argument must be a literal, got {ast.unparse(expr)}") from error
