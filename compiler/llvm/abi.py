"""The C entry of a kernel, in LLVM IR: checks what it is given, then calls the body.

`int32_t NAME(const vdla_tensor *arguments, int32_t count)` believes nothing but the pointers that are not null. A check
reads only what the checks before it have found sound: the order is count, then for every argument null, rank and dtype,
then every shape, then every alignment, then the overlaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from llvmlite import ir

from vdla.compiler.llvm.codes import ARGUMENT_SHIFT, DTYPES, Code, dtype_bytes
from vdla.compiler.llvm.module import body_name
from vdla.compiler.llvm.signature import Extent, Signature

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
POINTER = ir.PointerType()
TENSOR = ir.LiteralStructType((POINTER, POINTER, I32, I32))
DATA, SHAPE, RANK, DTYPE = range(4)  # the fields of a tensor
MAX_SCALAR = 2**31 - 1

Value = Any  # llvmlite's, which has no types


def signature_name(symbol: str) -> str:
    """The constant that holds the signature as text, so that an object says what it wants."""
    return f"{symbol}_signature"


def add_entry(module: ir.Module, signature: Signature) -> None:
    """Add the C entry of a kernel, and its signature, to the module that has its body."""
    body = module.get_global(body_name(signature.name))
    body.attributes.add("noinline")  # what it promises of its pointers must not depend on what the inliner keeps
    kind = ir.FunctionType(I32, (POINTER, I32))
    function = ir.Function(module, kind, signature.symbol)
    function.attributes.add("nounwind")
    entry = _Entry(function, signature)
    entry.check()
    entry.call(body)
    _add_signature(module, signature)


def _add_signature(module: ir.Module, signature: Signature) -> None:
    content = bytearray(signature.text.encode() + b"\0")
    kind = ir.ArrayType(ir.IntType(8), len(content))
    constant = ir.GlobalVariable(module, kind, signature_name(signature.symbol))
    constant.global_constant = True
    constant.initializer = ir.Constant(kind, content)


@dataclass(slots=True)
class _Tensor:
    """What the entry has read of an argument."""

    data: Value
    shape: Value
    begin: Value = None
    end: Value = None


class _Entry:
    """Builds the entry: straight code, every failed check a branch to the one return of an error."""

    def __init__(self, function: ir.Function, signature: Signature) -> None:
        self.signature = signature
        self.arguments, self.count = function.args
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.failed = function.append_basic_block("failed")
        with self.builder.goto_block(self.failed):
            self.code = self.builder.phi(I32, "code")
            self.builder.ret(self.code)
        self.tensors: list[_Tensor] = []
        self.scalars: dict[str, Value] = {}

    def check(self) -> None:
        """All checks, in their order."""
        everything = self.signature.arguments
        self.require("==", self.count, I32(len(everything)), Code.COUNT)
        self.require("!=", self.arguments, POINTER("null"), Code.NULL)
        for position in range(len(everything)):
            self.tensors.append(self.read(position))
        for scalar in self.signature.scalars:
            self.read_scalar(scalar)
        for position in range(len(everything)):
            self.check_shape(position)
        for position in range(len(everything)):
            self.check_alignment(position)
        for position, argument in enumerate(everything):
            if argument.output:
                self.check_overlaps(position)

    def call(self, body: ir.Function) -> None:
        """Call the body; the only thing that can fail there is memory."""
        data = [tensor.data for tensor in self.tensors]
        values = [*data, *(self.scalars[scalar] for scalar in self.signature.scalars)]
        kinds = body.function_type.args
        result = self.builder.call(body, [self._as(v, kind) for v, kind in zip(values, kinds, strict=True)])
        fine = self.builder.icmp_signed("==", result, I32(0))
        self.builder.ret(self.builder.select(fine, I32(Code.OK), I32(Code.MEMORY)))

    def _as(self, value: Value, kind: ir.Type) -> Value:
        """A value as the body takes it; an extent fits whatever integers it has for them."""
        if value.type == kind:
            return value
        return self.builder.trunc(value, kind) if isinstance(kind, ir.IntType) else self.builder.bitcast(value, kind)

    # --- checks

    def require(self, op: str, a: Value, b: Value, code: Code, argument: int = 0) -> None:
        """Go on only where `a op b`."""
        self.require_that(self.builder.icmp_signed(op, a, b), code, argument)

    def require_that(self, holds: Value, code: Code, argument: int) -> None:
        """Go on only where `holds`; else return the code of that argument."""
        self.code.add_incoming(I32(argument << ARGUMENT_SHIFT | code), self.builder.block)
        going_on = self.builder.function.append_basic_block("checked")
        self.builder.cbranch(holds, going_on, self.failed)
        self.builder.position_at_end(going_on)

    def read(self, position: int) -> _Tensor:
        """The pointers of an argument, not null; its rank and dtype are right."""
        argument = self.signature.arguments[position]
        data, shape, rank, dtype = (self.field(position, field) for field in (DATA, SHAPE, RANK, DTYPE))
        self.require("!=", data, POINTER("null"), Code.NULL, position)
        self.require("==", rank, I32(len(argument.shape)), Code.RANK, position)
        if argument.shape:
            self.require("!=", shape, POINTER("null"), Code.NULL, position)
        self.require("==", dtype, I32(DTYPES[argument.dtype]), Code.DTYPE, position)
        return _Tensor(data, shape)

    def field(self, position: int, field: int) -> Value:
        """A field of an argument's struct."""
        place = self.builder.gep(self.arguments, [I32(position), I32(field)], inbounds=True, source_etype=TENSOR)
        return self.builder.load(place, typ=TENSOR.elements[field])

    def extent(self, position: int, dimension: int) -> Value:
        """An extent of an argument, as the caller says it."""
        place = self.builder.gep(self.tensors[position].shape, [I32(dimension)], inbounds=True, source_etype=I64)
        return self.builder.load(place, typ=I64)

    def read_scalar(self, scalar: str) -> None:
        """Read a symbolic extent from where it is known."""
        position, dimension = self.signature.source(scalar)
        found = self.extent(position, dimension)
        self.require(">=", found, I64(1), Code.SHAPE, position)
        self.require("<=", found, I64(MAX_SCALAR), Code.SHAPE, position)
        self.scalars[scalar] = found

    def check_shape(self, position: int) -> None:
        """Every extent is what the signature says."""
        for dimension, extent in enumerate(self.signature.arguments[position].shape):
            if isinstance(extent, str) and self.signature.source(extent) == (position, dimension):
                continue
            code = Code.SYMBOL if isinstance(extent, str) else Code.SHAPE
            found, wanted = self.extent(position, dimension), self.value(extent)
            self.require("==", found, wanted, code, position)
            if isinstance(extent, tuple):
                self.require(">=", found, I64(1), Code.SHAPE, position)

    def check_alignment(self, position: int) -> None:
        """The data are aligned to their element; keeps where they begin and end."""
        argument, tensor = self.signature.arguments[position], self.tensors[position]
        tensor.begin = self.builder.ptrtoint(tensor.data, I64)
        size = dtype_bytes(argument.dtype)
        if size > 1:
            spare = self.builder.and_(tensor.begin, I64(size - 1))
            self.require("==", spare, I64(0), Code.ALIGNMENT, position)
        tensor.end = self.builder.add(tensor.begin, self.nbytes(position))
        if argument.static is None:
            ordered = self.builder.icmp_unsigned(">=", tensor.end, tensor.begin)
            self.require_that(ordered, Code.SHAPE, position)

    def check_overlaps(self, position: int) -> None:
        """An output lies apart from every other argument."""
        mine = self.tensors[position]
        for other, argument in enumerate(self.signature.arguments):
            if other == position or (argument.output and other > position):
                continue
            theirs = self.tensors[other]
            before = self.builder.icmp_unsigned("<=", mine.end, theirs.begin)
            behind = self.builder.icmp_unsigned("<=", theirs.end, mine.begin)
            self.require_that(self.builder.or_(before, behind), Code.OVERLAP, position)

    # --- numbers

    def nbytes(self, position: int) -> Value:
        """The bytes of an argument; more than 64 bits can say is a wrong shape."""
        argument = self.signature.arguments[position]
        size = dtype_bytes(argument.dtype)
        if argument.static is not None:
            return I64(size * prod(argument.static))
        total: Value = I64(size)
        for extent in argument.shape:
            both = self.builder.umul_with_overflow(total, self.value(extent))
            total = self.builder.extract_value(both, 0)
            overflows = self.builder.extract_value(both, 1)
            self.require_that(self.builder.not_(overflows), Code.SHAPE, position)
        return total

    def value(self, extent: Extent) -> Value:
        """The number that an extent is."""
        if isinstance(extent, int):
            return I64(extent)
        if isinstance(extent, str):
            return self.scalars[extent]
        op, a, b = extent
        return self.combine(op, self.value(a), self.value(b))

    def combine(self, op: str, a: Value, b: Value) -> Value:
        """`a op b`, with Python's division; by 0 it gives 0."""
        builder = self.builder
        match op:
            case "add" | "sub" | "mul":
                return getattr(builder, op)(a, b)
            case "min" | "max":
                return builder.select(builder.icmp_signed("<" if op == "min" else ">", a, b), a, b)
        zero = builder.icmp_signed("==", b, I64(0))
        divisor = builder.select(zero, I64(1), b)
        remainder = builder.srem(a, divisor)
        other_sign = builder.icmp_signed("<", builder.xor(remainder, divisor), I64(0))
        inexact = builder.and_(builder.icmp_signed("!=", remainder, I64(0)), other_sign)
        if op == "mod":
            result = builder.select(inexact, builder.add(remainder, divisor), remainder)
        else:
            result = builder.sub(builder.sdiv(a, divisor), builder.zext(inexact, I64))
        return builder.select(zero, I64(0), result)
