# SPDX-License-Identifier: Apache-2.0
"""The C entry of a kernel, in LLVM IR: checks its arguments, then calls the body.

`int32_t NAME(const vdla_tensor *arguments, int32_t count)` trusts only that non-null pointers are
valid. The checks run in this order, each relying on those before: count; per argument null, rank
and dtype; all shapes; all alignments; all overlaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from vdla.compiler.abi import (
    ARGUMENT_SHIFT,
    DTYPE_CODES,
    MAX_EXTENT,
    ExtentExpr,
    KernelStatus,
    Signature,
    element_bytes,
    signature_symbol,
)
from vdla.compiler.codegen.llvm.arithmetic import Arithmetic
from vdla.compiler.codegen.llvm.module import body_symbol
from vdla.compiler.codegen.llvm.types import I32, I64, POINTER, Value, index_type
from vdla.compiler.target import Target

_TENSOR = ir.LiteralStructType((POINTER, POINTER, I32, I32))
_DATA, _SHAPE, _RANK, _DTYPE = range(4)  # the fields of a vdla_tensor


def add_entry(module: ir.Module, signature: Signature, target: Target) -> None:
    """Add the C entry of a kernel and its signature to the module that holds its body."""
    body = module.get_global(body_symbol(signature.name))
    body.attributes.add("noinline")  # its `noalias` parameters would be lost by inlining
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
    """The loaded fields of an argument, and the begin and end of its data as integers."""

    data: Value
    shape: Value
    begin: Value = None
    end: Value = None


class _Entry:
    """Builds the entry: straight-line code; every failed check branches to one error return."""

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
        """All checks, in order."""
        arguments = self.signature.arguments
        self.require("==", self.count, I32(len(arguments)), KernelStatus.COUNT)
        self.require("!=", self.arguments, POINTER("null"), KernelStatus.NULL)
        for position in range(len(arguments)):
            self.tensors.append(self.read(position))
        for scalar in self.signature.scalars:
            self.read_scalar(scalar)
        for position in range(len(arguments)):
            self.check_shape(position)
        for position in range(len(arguments)):
            self.check_alignment(position)
        for position, argument in enumerate(arguments):
            if argument.output:
                self.check_overlaps(position)

    def call(self, body: ir.Function) -> None:
        """Call the body, which can fail only for lack of memory."""
        data = [tensor.data for tensor in self.tensors]
        values = [*data, *(self.scalars[scalar] for scalar in self.signature.scalars)]
        result = self.builder.call(body, values)
        succeeded = self.builder.icmp_signed("==", result, I32(0))
        self.builder.ret(self.builder.select(succeeded, I32(int(KernelStatus.OK)), I32(int(KernelStatus.MEMORY))))

    # --- checks

    def require(self, op: str, a: Value, b: Value, code: KernelStatus, argument: int = 0) -> None:
        """Return the error unless `a op b`."""
        self.require_that(self.builder.icmp_signed(op, a, b), code, argument)

    def require_that(self, holds: Value, code: KernelStatus, argument: int) -> None:
        """Return the error for that argument unless `holds`."""
        self.code.add_incoming(I32(argument << ARGUMENT_SHIFT | code), self.builder.block)
        checked = self.builder.function.append_basic_block("checked")
        self.builder.cbranch(holds, checked, self.failed)
        self.builder.position_at_end(checked)

    def read(self, position: int) -> _Tensor:
        """The pointers of an argument; checks that they are not null, and its rank and dtype."""
        argument = self.signature.arguments[position]
        data, shape, rank, dtype = (self.field(position, field) for field in (_DATA, _SHAPE, _RANK, _DTYPE))
        self.require("!=", data, POINTER("null"), KernelStatus.NULL, position)
        self.require("==", rank, I32(len(argument.shape)), KernelStatus.RANK, position)
        if argument.shape:
            self.require("!=", shape, POINTER("null"), KernelStatus.NULL, position)
        self.require("==", dtype, I32(DTYPE_CODES[argument.dtype]), KernelStatus.DTYPE, position)
        return _Tensor(data, shape)

    def field(self, position: int, field: int) -> Value:
        """A field of an argument's struct."""
        address = self.builder.gep(self.arguments, [I32(position), I32(field)], inbounds=True, source_etype=_TENSOR)
        return self.builder.load(address, typ=_TENSOR.elements[field])

    def extent(self, position: int, dimension: int) -> Value:
        """An extent of an argument, as passed by the caller."""
        address = self.builder.gep(self.tensors[position].shape, [I32(dimension)], inbounds=True, source_etype=I64)
        return self.builder.load(address, typ=I64)

    def read_scalar(self, scalar: str) -> None:
        """Load a symbolic extent from the dimension that defines it."""
        position, dimension = self.signature.source(scalar)
        size = self.extent(position, dimension)
        self.require_extent(size, position)
        self.scalars[scalar] = size

    def require_extent(self, size: Value, position: int) -> None:
        """Return an error unless an extent is from 1 to MAX_EXTENT."""
        self.require(">=", size, I64(1), KernelStatus.SHAPE, position)
        self.require("<=", size, I64(MAX_EXTENT), KernelStatus.SHAPE, position)

    def check_shape(self, position: int) -> None:
        """Check every extent against the signature."""
        for dimension, extent in enumerate(self.signature.arguments[position].shape):
            if isinstance(extent, str) and self.signature.source(extent) == (position, dimension):
                continue
            code = KernelStatus.SYMBOL if isinstance(extent, str) else KernelStatus.SHAPE
            size, wanted = self.extent(position, dimension), self.value(extent, position)
            self.require("==", size, wanted, code, position)
            if isinstance(extent, tuple):
                self.require_extent(size, position)

    def check_alignment(self, position: int) -> None:
        """Check that the data are aligned to an element; computes their begin and end."""
        argument, tensor = self.signature.arguments[position], self.tensors[position]
        tensor.begin = self.builder.ptrtoint(tensor.data, I64)
        align = element_bytes(argument.dtype)
        if align > 1:
            misalignment = self.builder.and_(tensor.begin, I64(align - 1))
            self.require("==", misalignment, I64(0), KernelStatus.ALIGNMENT, position)
        size = self.nbytes(position)
        tensor.end = self.builder.add(tensor.begin, size)
        if argument.static is None:
            largest = I64((1 << (index_type(self.target).width - 1)) - 1)
            self.require_that(self.builder.icmp_unsigned("<=", size, largest), KernelStatus.SHAPE, position)

    def check_overlaps(self, position: int) -> None:
        """Check that an output overlaps no other argument."""
        mine = self.tensors[position]
        for other, argument in enumerate(self.signature.arguments):
            if other == position or (argument.output and other > position):
                continue
            theirs = self.tensors[other]
            is_before = self.builder.icmp_unsigned("<=", mine.end, theirs.begin)
            is_after = self.builder.icmp_unsigned("<=", theirs.end, mine.begin)
            self.require_that(self.builder.or_(is_before, is_after), KernelStatus.OVERLAP, position)

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
        """The value of an extent of an argument."""
        if isinstance(extent, int):
            return I64(extent)
        if isinstance(extent, str):
            return self.scalars[extent]
        op, a, b = extent
        left, right = self.value(a, position), self.value(b, position)
        if op in ("add", "sub", "mul"):
            return self.exact(f"s{op}", left, right, position)
        return Arithmetic(self.builder, self.target, False).binary(op, "int64", left, right)

    def exact(self, op: str, a: Value, b: Value, position: int) -> Value:
        """`a op b`; overflow is a shape error."""
        both = getattr(self.builder, f"{op}_with_overflow")(a, b)
        self.require_that(self.builder.not_(self.builder.extract_value(both, 1)), KernelStatus.SHAPE, position)
        return self.builder.extract_value(both, 0)
