# SPDX-License-Identifier: Apache-2.0
"""The LLVM types of elements, in registers and in memory, and constants of these types.

In registers int2 and int4 are an i8 within their range, bool is an i1, and bfloat16 is an i16 of
its bits; so is float16 on a CPU without float16 conversions. In memory bool is an i8 of 0 or 1;
all other types are as in registers. Functions that take a scalar value also take a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from llvmlite import ir as llvm

from vdla.compiler.ir import INTEGER_BITS, SMALL_FLOATS
from vdla.compiler.target import GPU_ARCHITECTURE, Target

Value = Any  # an llvmlite value; llvmlite is untyped
Type = Any  # an llvmlite type

I1, I8, I16, I32, I64 = (llvm.IntType(bits) for bits in (1, 8, 16, 32, 64))
HALF, FLOAT, DOUBLE = llvm.HalfType(), llvm.FloatType(), llvm.DoubleType()
POINTER = llvm.PointerType()
VOID = llvm.VoidType()

BITS = {"bool": 1, **INTEGER_BITS}
_FLOATS = {"float32": FLOAT, "float64": DOUBLE}


def is_signed(dtype: str) -> bool:
    """Whether elements are signed integers."""
    return dtype.startswith("int")


def _has_half(target: Target) -> bool:
    """Whether the CPU has instructions that convert between float16 and float32."""
    return target.has("f16c") or target.has("fp16") or target.architecture == "aarch64" or is_gpu(target)


def is_x86(target: Target) -> bool:
    """Whether the CPU is an x86."""
    return target.architecture == "x86_64"


def is_gpu(target: Target) -> bool:
    """Whether code is for the threads of a GPU."""
    return target.architecture == GPU_ARCHITECTURE


def index_type(target: Target) -> Type:
    """The integer type of indices: as wide as a pointer, but i32 in the registers of GPUs."""
    return I32 if target.architecture == "arm" or is_gpu(target) else I64


def value_type(dtype: str, target: Target) -> Type:
    """The type of one element in a register."""
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    if dtype in SMALL_FLOATS:
        return HALF if dtype == "float16" and _has_half(target) else I16
    bits = BITS[dtype]
    return I8 if 1 < bits < 8 else llvm.IntType(bits)


def stored_type(dtype: str, target: Target) -> Type:
    """The type of one element in memory."""
    return I8 if dtype == "bool" else value_type(dtype, target)


def element_type(kind: Type) -> Type:
    """The lane type of a vector type; a scalar type itself."""
    return kind.element if isinstance(kind, llvm.VectorType) else kind


def lane_count(value: Value) -> int | None:
    """The number of lanes of a vector; None for a scalar."""
    return value.type.count if isinstance(value.type, llvm.VectorType) else None


def type_like(value: Value, kind: Type) -> Type:
    """`kind` with as many lanes as `value`."""
    count = lane_count(value)
    return kind if count is None else llvm.VectorType(kind, count)


def type_suffix(kind: Type) -> str:
    """The suffix for a type in the names of LLVM intrinsics, such as `v4f32`."""
    if isinstance(kind, llvm.VectorType):
        return f"v{kind.count}{kind.element.intrinsic_name}"
    return str(kind.intrinsic_name)


# --- constants ------------------------------------------------------------------------------------


class _TextConstant(llvm.Constant):  # type: ignore[misc]  # llvmlite is untyped
    """A constant given as LLVM text; llvmlite would write a vector lane by lane."""

    def __init__(self, kind: Type, text: str) -> None:
        self.type, self.constant = kind, text

    def _get_reference(self) -> str:
        return str(self.constant)


def constant(kind: Type, number: Any) -> Value:  # noqa: ANN401
    """A number of type `kind`, in every lane of a vector type."""
    if not isinstance(kind, llvm.VectorType):
        return llvm.Constant(kind, number)
    return _splat_constant(llvm.Constant(kind.element, number), kind)


def _splat_constant(number: Value, kind: Type) -> Value:
    return _TextConstant(kind, f"splat ({number.type} {number.get_reference()})")


def splat(value: Value, number: Any) -> Value:  # noqa: ANN401
    """A number of the type of `value`, in every lane of a vector."""
    return constant(value.type, number)


def poison(kind: Type) -> Value:
    """A poison value."""
    return _TextConstant(kind, "poison")


@cache
def shuffle_mask(lanes: tuple[int, ...]) -> Value:
    """The mask operand of a shufflevector."""
    return llvm.Constant(llvm.VectorType(I32, len(lanes)), list(lanes))


# --- instructions ---------------------------------------------------------------------------------


def broadcast(builder: Value, value: Value, count: int) -> Value:
    """A scalar in each of `count` lanes; a vector unchanged."""
    if isinstance(value.type, llvm.VectorType):
        return value
    kind = llvm.VectorType(value.type, count)
    if isinstance(value, llvm.Constant):
        return _splat_constant(value, kind)
    first = builder.insert_element(poison(kind), value, I32(0))
    return builder.shuffle_vector(first, poison(kind), shuffle_mask((0,) * count))


def call_intrinsic(builder: Value, name: str, result: Type, *arguments: Value, flags: Sequence[str] = ()) -> Value:
    """Call the LLVM intrinsic of that full name; declares it in the module if necessary."""
    kind = llvm.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(builder.module.declare_intrinsic(name, (), kind), list(arguments), fastmath=flags)
