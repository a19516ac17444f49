"""The LLVM types of elements: how a value of a dtype lies in a register, and how in memory.

In registers int2 and int4 are an i8 that always is in their range, bool is an i1, and bfloat16 is the i16 of its bits;
so is float16 on a CPU without conversions to it. In memory bool is an i8 of 0 or 1, everything else as in registers.
Every function here that takes a value takes a vector of values as well.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir as llvm

from vdla.compiler.ir import INTEGER_BITS, SMALL_FLOATS, storage_dtype
from vdla.compiler.target import Target

Value = Any  # an llvmlite value: the library has no types of its own
Type = Any  # an llvmlite type

I1, I8, I16, I32, I64 = (llvm.IntType(bits) for bits in (1, 8, 16, 32, 64))
HALF, FLOAT, DOUBLE = llvm.HalfType(), llvm.FloatType(), llvm.DoubleType()
POINTER = llvm.PointerType()
VOID = llvm.VoidType()

BITS = {"bool": 1, **INTEGER_BITS}
FLOATS = {"float32": FLOAT, "float64": DOUBLE}


def is_signed(dtype: str) -> bool:
    """Whether elements are signed integers."""
    return dtype.startswith("int")


def has_half(target: Target) -> bool:
    """Whether the CPU converts between float16 and float32 itself."""
    return target.has("f16c") or target.has("fp16") or target.architecture == "aarch64"


def is_x86(target: Target) -> bool:
    """Whether the CPU is an x86."""
    return target.architecture == "x86_64"


def index_type(target: Target) -> Type:
    """The integer type of indices: as wide as a pointer."""
    return I32 if target.architecture == "arm" else I64


def value_type(dtype: str, target: Target) -> Type:
    """The type of one element in a register."""
    if dtype in FLOATS:
        return FLOATS[dtype]
    if dtype in SMALL_FLOATS:
        return HALF if dtype == "float16" and has_half(target) else I16
    bits = BITS[dtype]
    return I8 if 1 < bits < 8 else llvm.IntType(bits)


def stored_type(dtype: str, target: Target) -> Type:
    """The type of one element in memory."""
    return I8 if dtype == "bool" else value_type(dtype, target)


def nbytes(dtype: str) -> int:
    """The bytes of one element in memory."""
    return storage_dtype(dtype).itemsize


def element(kind: Type) -> Type:
    """The type of a lane; a scalar type is its own."""
    return kind.element if isinstance(kind, llvm.VectorType) else kind


def lanes(value: Value) -> int | None:
    """How many lanes a value has; None for a scalar."""
    return value.type.count if isinstance(value.type, llvm.VectorType) else None


def like(value: Value, kind: Type) -> Type:
    """`kind` in as many lanes as `value` has."""
    count = lanes(value)
    return kind if count is None else llvm.VectorType(kind, count)


def constant(kind: Type, number: Any) -> Value:  # noqa: ANN401
    """A number, in every lane if `kind` has lanes."""
    if not isinstance(kind, llvm.VectorType):
        return llvm.Constant(kind, number)
    return in_lanes(llvm.Constant(kind.element, number), kind)


class Words(llvm.Constant):  # type: ignore[misc]  # llvmlite has no types
    """A constant by its text, which the library would write lane by lane."""

    def __init__(self, kind: Type, text: str) -> None:
        self.type, self.constant = kind, text

    def _get_reference(self) -> str:
        return str(self.constant)


def in_lanes(number: Value, kind: Type) -> Value:
    """A constant in every lane."""
    return Words(kind, f"splat ({number.type} {number.get_reference()})")


def same(value: Value, number: Any) -> Value:  # noqa: ANN401
    """A constant of the type of `value`."""
    return constant(value.type, number)


def undefined(kind: Type) -> Value:
    """A value that nobody looks at."""
    return Words(kind, "poison")


def broadcast(builder: Value, value: Value, count: int) -> Value:
    """A scalar in every one of `count` lanes; a vector stays itself."""
    if isinstance(value.type, llvm.VectorType):
        return value
    kind = llvm.VectorType(value.type, count)
    if isinstance(value, llvm.Constant):
        return in_lanes(value, kind)
    first = builder.insert_element(undefined(kind), value, I32(0))
    return builder.shuffle_vector(first, undefined(kind), lane_order((0,) * count))


@cache
def lane_order(order: tuple[int, ...]) -> Value:
    """The constant that a shuffle takes."""
    return llvm.Constant(llvm.VectorType(I32, len(order)), list(order))


def intrinsic(builder: Value, name: str, result: Type, args: list[Value]) -> Value:
    """Call LLVM's intrinsic of that full name."""
    kind = llvm.FunctionType(result, [arg.type for arg in args])
    return builder.call(builder.module.declare_intrinsic(name, (), kind), args)


def suffix(kind: Type) -> str:
    """How the names of intrinsics say a type."""
    if isinstance(kind, llvm.VectorType):
        return f"v{kind.count}{kind.element.intrinsic_name}"
    return str(kind.intrinsic_name)
