# SPDX-License-Identifier: Apache-2.0
"""Helpers of the declarations and lowerings of CPU intrinsics: checks and vector operations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from llvmlite import ir

from vdla.compiler import te
from vdla.compiler.codegen.llvm.types import Type, Value, broadcast
from vdla.compiler.target import Target
from vdla.compiler.tensorize import MEMORY, Intrinsic, IntrinsicError

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter

Declare = TypeVar("Declare", bound=Callable[..., Intrinsic])


def declared_once(declare: Declare) -> Declare:
    """Cache the intrinsics that `declare` returns; refuse arguments that no option can be."""
    cached = lru_cache(declare)

    @wraps(declare)
    def checked(*arguments: Any, **named: Any) -> Intrinsic:  # noqa: ANN401  those of `declare`
        for value in (*arguments, *named.values()):
            if not isinstance(value, Hashable):
                rule = "an argument must be a number or a name"
                raise IntrinsicError(f"intrinsic {declare.__name__}: {rule}, got {value!r}")
        return cached(*arguments, **named)

    return cast("Declare", checked)


def cpu_intrinsic(
    name: str, output: te.Tensor, lower: Callable[[IntrinsicEmitter], None], requires: tuple[str, ...] = ()
) -> Intrinsic:
    """An intrinsic of CPUs, whose operands lie in memory."""
    reads = output.stage.reads if output.stage else ()
    scopes = dict.fromkeys((*(tensor.name for tensor in reads), output.name), MEMORY)
    return Intrinsic(name=name, output=output, scopes=scopes, lower=lower, target="cpu", requires=requires)


def require_target(where: str, target: object) -> None:
    """Refuse what is not a CPU target."""
    if not isinstance(target, Target):
        rule = "target must be a Target, such as Target.named('host')"
        raise IntrinsicError(f"{where}: {rule}, got {target!r}")


def check_choice(where: str, what: str, value: object, choices: Iterable[object]) -> None:
    """Refuse a value that is not one of `choices`."""
    known = list(choices)
    if value not in known:
        raise IntrinsicError(f"intrinsic {where}: {what} must be one of {', '.join(map(str, known))}, got {value!r}")


def vector_type(bits: int, lanes: int) -> Type:
    """The type of `lanes` integers."""
    return ir.VectorType(ir.IntType(bits), lanes)


def splat_group(builder: Value, value: Value, lanes: int) -> Value:
    """A short vector, as one integer, in each of `lanes` lanes; broadcasts a group of bytes."""
    bits = value.type.count * value.type.element.width
    return broadcast(builder, builder.bitcast(value, ir.IntType(bits)), lanes)
