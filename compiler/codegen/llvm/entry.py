"""The C entry of a kernel, in LLVM IR: checks what it is given, then calls the body.

`int32_t NAME(const vdla_tensor *arguments, int32_t count)` believes nothing but the pointers that are not null. A check
reads only what the checks before it have found sound: the order is count, then for every argument null, rank and dtype,
then every shape, then every alignment, then the overlaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from vdla.compiler.abi import (
    ARGUMENT_SHIFT,
    DTYPE_CODES,
    MAX_EXTENT,
    ErrorCode,
    ExtentExpr,
    Signature,
    element_bytes,
    signature_symbol,
)
from vdla.compiler.codegen.llvm.module import body_name
from vdla.compiler.codegen.llvm.types import I32, I64, POINTER, Value, index_type
from vdla.compiler.codegen.llvm.values import Operators
from vdla.compiler.target import Target

TENSOR = ir.LiteralStructType((POINTER, POINTER, I32, I32))
DATA, SHAPE, RANK, DTYPE = range(4)  # the fields of a tensor


def add_entry(module: ir.Module, signature: Signature, target: Target) -> None:
    """Add the C entry of a kernel, and its signature, to the module that has its body."""
    body = module.get_global(body_name(signature.name))
    body.attributes.add("noinline")  # what it promises of its pointers must not depend on what the inliner keeps
    kind = ir.FunctionType(I32, (POINTER, I32))
    function = ir.Function(module, kind, signature.symbol)
    function.attributes.add("nounwind")
    entry = _Entry(function, signature, target)
    entry.check()
    entry.call(body)
    _add_signature(module, signature)


def _add_signature(module: ir.Module, signature: Signature) -> None:
    content = bytearray(signature.to_json().encode() + b"\0")
    kind = ir.ArrayType(ir.IntType(8), len(content))
    constant = ir.GlobalVariable(module, kind, signature_symbol(signature.symbol))
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

    def __init__(self, function: ir.Function, signature: Signature, target: Target) -> None:
        self.signature, self.target = signature, target
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
        self.require("==", self.count, I32(len(everything)), ErrorCode.COUNT)
        self.require("!=", self.arguments, POINTER("null"), ErrorCode.NULL)
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
        result = self.builder.call(body, values)
        fine = self.builder.icmp_signed("==", result, I32(0))
        self.builder.ret(self.builder.select(fine, I32(ErrorCode.OK), I32(ErrorCode.MEMORY)))

    # --- checks

    def require(self, op: str, a: Value, b: Value, code: ErrorCode, argument: int = 0) -> None:
        """Go on only where `a op b`."""
        self.require_that(self.builder.icmp_signed(op, a, b), code, argument)

    def require_that(self, holds: Value, code: ErrorCode, argument: int) -> None:
        """Go on only where `holds`; else return the code of that argument."""
        self.code.add_incoming(I32(argument << ARGUMENT_SHIFT | code), self.builder.block)
        going_on = self.builder.function.append_basic_block("checked")
        self.builder.cbranch(holds, going_on, self.failed)
        self.builder.position_at_end(going_on)

    def read(self, position: int) -> _Tensor:
        """The pointers of an argument, not null; its rank and dtype are right."""
        argument = self.signature.arguments[position]
        data, shape, rank, dtype = (self.field(position, field) for field in (DATA, SHAPE, RANK, DTYPE))
        self.require("!=", data, POINTER("null"), ErrorCode.NULL, position)
        self.require("==", rank, I32(len(argument.shape)), ErrorCode.RANK, position)
        if argument.shape:
            self.require("!=", shape, POINTER("null"), ErrorCode.NULL, position)
        self.require("==", dtype, I32(DTYPE_CODES[argument.dtype]), ErrorCode.DTYPE, position)
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
        self.require_extent(found, position)
        self.scalars[scalar] = found

    def require_extent(self, found: Value, position: int) -> None:
        """Go on only where an extent is one that indices can count."""
        self.require(">=", found, I64(1), ErrorCode.SHAPE, position)
        self.require("<=", found, I64(MAX_EXTENT), ErrorCode.SHAPE, position)

    def check_shape(self, position: int) -> None:
        """Every extent is what the signature says."""
        for dimension, extent in enumerate(self.signature.arguments[position].shape):
            if isinstance(extent, str) and self.signature.source(extent) == (position, dimension):
                continue
            code = ErrorCode.SYMBOL if isinstance(extent, str) else ErrorCode.SHAPE
            found, wanted = self.extent(position, dimension), self.value(extent, position)
            self.require("==", found, wanted, code, position)
            if isinstance(extent, tuple):
                self.require_extent(found, position)

    def check_alignment(self, position: int) -> None:
        """The data are aligned to their element; keeps where they begin and end."""
        argument, tensor = self.signature.arguments[position], self.tensors[position]
        tensor.begin = self.builder.ptrtoint(tensor.data, I64)
        align = element_bytes(argument.dtype)
        if align > 1:
            spare = self.builder.and_(tensor.begin, I64(align - 1))
            self.require("==", spare, I64(0), ErrorCode.ALIGNMENT, position)
        size = self.nbytes(position)
        tensor.end = self.builder.add(tensor.begin, size)
        if argument.static is None:
            largest = I64((1 << (index_type(self.target).width - 1)) - 1)
            self.require_that(self.builder.icmp_unsigned("<=", size, largest), ErrorCode.SHAPE, position)

    def check_overlaps(self, position: int) -> None:
        """An output lies apart from every other argument."""
        mine = self.tensors[position]
        for other, argument in enumerate(self.signature.arguments):
            if other == position or (argument.output and other > position):
                continue
            theirs = self.tensors[other]
            before = self.builder.icmp_unsigned("<=", mine.end, theirs.begin)
            behind = self.builder.icmp_unsigned("<=", theirs.end, mine.begin)
            self.require_that(self.builder.or_(before, behind), ErrorCode.OVERLAP, position)

    # --- numbers

    def nbytes(self, position: int) -> Value:
        """The bytes of an argument."""
        argument = self.signature.arguments[position]
        size = element_bytes(argument.dtype)
        if argument.static is not None:
            return I64(size * prod(argument.static))
        total: Value = I64(size)
        for extent in argument.shape:
            total = self.exact("umul", total, self.value(extent, position), position)
        return total

    def value(self, extent: ExtentExpr, position: int) -> Value:
        """The number that an extent of an argument is."""
        if isinstance(extent, int):
            return I64(extent)
        if isinstance(extent, str):
            return self.scalars[extent]
        op, a, b = extent
        left, right = self.value(a, position), self.value(b, position)
        if op in ("add", "sub", "mul"):
            return self.exact(f"s{op}", left, right, position)
        return Operators(self.builder, self.target, False).binary(op, "int64", left, right)

    def exact(self, op: str, a: Value, b: Value, position: int) -> Value:
        """`a op b`; more than 64 bits can say is a wrong shape."""
        both = getattr(self.builder, f"{op}_with_overflow")(a, b)
        self.require_that(self.builder.not_(self.builder.extract_value(both, 1)), ErrorCode.SHAPE, position)
        return self.builder.extract_value(both, 0)
