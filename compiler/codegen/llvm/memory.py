# SPDX-License-Identifier: Apache-2.0
"""Loads and stores of elements: scalars, or vectors along the lanes of a loop.

Lanes at small known distances are read by one load of the whole span and a shuffle. That load stays
inside the buffer, since its first and last element do. Other lanes are gathered.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import element_bytes
from vdla.compiler.arith import Linear
from vdla.compiler.codegen.llvm.addresses import alignment, element_pointer, emit_terms, offset_of, pattern_of
from vdla.compiler.codegen.llvm.casts import from_memory, to_memory
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder
from vdla.compiler.codegen.llvm.lanes import AccessPattern, VectorLanes, is_inside
from vdla.compiler.codegen.llvm.numbers import Number
from vdla.compiler.codegen.llvm.types import (
    I1,
    I32,
    POINTER,
    VOID,
    Type,
    Value,
    broadcast,
    call_intrinsic,
    constant,
    is_gpu,
    poison,
    shuffle_mask,
    stored_type,
    type_suffix,
)

_MASKED_BYTES = 4  # the smallest element that AVX-512F can mask; smaller ones need AVX-512BW
_SHORT_BYTES = 16  # the longest vector of such small elements worth a mask; longer ones are as fast unmasked
_MAX_SPAN = 4  # the largest span to load for a shuffle, as a multiple of the lanes


def load(fb: FunctionBuilder, name: str, indices: tuple[ir.Expr, ...], lanes: VectorLanes | None = None) -> Value:
    """An element, or one per lane; inactive lanes get an arbitrary value."""
    return from_memory(fb.builder, _Buffer(fb, name).load(indices, lanes), fb.buffers[name].dtype)


def store(
    fb: FunctionBuilder, name: str, indices: tuple[ir.Expr, ...], value: Value, lanes: VectorLanes | None = None
) -> None:
    """Store an element, or one per active lane; of lanes that write one element, the last wins."""
    _Buffer(fb, name).store(indices, to_memory(fb.builder, value, fb.buffers[name].dtype), lanes)


def load_contiguous(fb: FunctionBuilder, name: str, offset: Linear, length: int) -> Value:
    """`length` contiguous elements as a vector."""
    buffer = _Buffer(fb, name)
    return from_memory(fb.builder, buffer.load_one(offset, buffer.vector(length)), fb.buffers[name].dtype)


def store_contiguous(fb: FunctionBuilder, name: str, offset: Linear, value: Value) -> None:
    """Store a vector to contiguous elements."""
    _Buffer(fb, name).store_one(offset, to_memory(fb.builder, value, fb.buffers[name].dtype))


def prefetch(fb: FunctionBuilder, name: str, indices: tuple[ir.Expr, ...]) -> None:
    """Prefetch the cache line of an element, which may lie outside the buffer."""
    address = element_pointer(fb, name, offset_of(fb, name, indices), in_bounds=False)
    read, high_locality, data_cache = I32(0), I32(3), I32(1)
    call_intrinsic(fb.builder, "llvm.prefetch.p0", VOID, address, read, high_locality, data_cache)


def lane_ranges(fb: FunctionBuilder, lanes: VectorLanes | None) -> dict[str, tuple[int, int]]:
    """The bounds of all variables, the lane variable included."""
    return fb.ranges if lanes is None else {**fb.ranges, lanes.var: (0, lanes.count - 1)}


@dataclass(frozen=True, slots=True)
class _Buffer:
    """A buffer, accessed by the code that `fb` emits."""

    fb: FunctionBuilder
    name: str

    @property
    def kind(self) -> Type:
        """The type of an element in memory."""
        return stored_type(self.fb.buffers[self.name].dtype, self.fb.target)

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return element_bytes(self.fb.buffers[self.name].dtype)

    def vector(self, count: int) -> Type:
        """The type of `count` elements."""
        return llvm.VectorType(self.kind, count)

    def pointer(self, offset: Linear, *, in_bounds: bool = True) -> Value:
        """The address of an element."""
        return element_pointer(self.fb, self.name, offset, in_bounds)

    def alignment(self, offset: Linear) -> int:
        """The known alignment of an element in bytes."""
        return alignment(self.fb, self.name, offset)

    # --- loads

    def load(self, indices: tuple[ir.Expr, ...], lanes: VectorLanes | None) -> Value:
        """An element, or one per lane, as stored."""
        fb, offset = self.fb, offset_of(self.fb, self.name, indices)
        inside = is_inside(indices, fb.buffers[self.name], lane_ranges(fb, lanes))
        if lanes is None:
            return self.load_one(offset, self.kind)
        mask = None if inside else lanes.mask
        pattern = pattern_of(fb, offset, lanes)
        if pattern.is_uniform:
            return self.load_uniform(pattern.start + pattern.steps[0], mask)
        if pattern.is_contiguous and mask is not None:
            return self.masked_load(_first(pattern), self.vector(lanes.count), mask, in_bounds=False)
        by_lane = is_gpu(fb.target) and not pattern.is_contiguous  # a GPU has no shuffles within a thread
        if pattern.is_static and mask is None and not by_lane and pattern.span <= _MAX_SPAN * lanes.count:
            return self.load_span(pattern)
        if pattern.is_static and mask is None and (by_lane or self.fits_registers()):
            return self.load_lane_by_lane(pattern)
        return self.gather(pattern, lanes.with_mask(mask))

    def load_one(self, offset: Linear, kind: Type) -> Value:
        """A value of type `kind`, an element or a vector, at an offset."""
        address = self.pointer(offset)
        return self.fb.builder.load(address, typ=kind, align=self.alignment(offset))

    def load_uniform(self, offset: Linear, mask: Value | None) -> Value:
        """One element for all lanes; not read if no lane is active."""
        if mask is None:
            return self.load_one(offset, self.kind)
        any_active = Number(self.fb.builder, mask).any_lane().value
        return self.fb.choose(any_active, lambda: self.load_one(offset, self.kind), lambda: poison(self.kind))

    def load_span(self, pattern: AccessPattern) -> Value:
        """The lanes from one load of the whole span, or from two of its ends."""
        builder = self.fb.builder
        if pattern.is_contiguous:
            return self.load_vector(_first(pattern), pattern.span)
        first, skipped, span = self.span(pattern)
        steps = [step - min(pattern.steps) + skipped for step in pattern.steps]
        width = _next_power_of_two(len(steps))
        if not width < span <= 2 * width:
            whole = self.load_vector(first, span)
            return builder.shuffle_vector(whole, poison(whole.type), shuffle_mask(tuple(steps)))
        low = self.load_one(first, self.vector(width))
        high = self.load_one(first + (span - width), self.vector(width))  # may overlap the first
        mask = tuple(step if step < width else step - span + 2 * width for step in steps)
        return builder.shuffle_vector(low, high, shuffle_mask(mask))

    def span(self, pattern: AccessPattern) -> tuple[Linear, int, int]:
        """The first element to load, how many come before the lanes, and how many there are.

        Of elements in groups of a stride, whole groups: LLVM then has one load for all elements of
        the groups. They lie inside a buffer of whole groups.
        """
        first, stride, extents = _first(pattern), pattern.stride, self.fb.buffers[self.name].shape
        static = [extent for extent in extents if isinstance(extent, int)]
        in_groups = stride > 1 and len(static) == len(extents) and prod(static) % stride == 0
        if not in_groups or any(factor % stride for factor in first.terms.values()):
            return first, 0, pattern.span
        skipped = first.const % stride
        return first + -skipped, skipped, stride * len(pattern.steps)

    def load_lane_by_lane(self, pattern: AccessPattern) -> Value:
        """The lanes one by one; of a buffer in registers, LLVM turns this into shuffles."""
        result = poison(self.vector(len(pattern.steps)))
        for lane, step in enumerate(pattern.steps):
            element = self.load_one(pattern.start + step, self.kind)
            result = self.fb.builder.insert_element(result, element, I32(lane))
        return result

    def load_vector(self, offset: Linear, count: int) -> Value:
        """`count` contiguous elements; one masked load, if that beats several partial loads."""
        if not self.prefers_mask(count):
            return self.load_one(offset, self.vector(count))
        wide = self.vector(_next_power_of_two(count))
        whole = self.masked_load(offset, wide, _prefix_mask(wide.count, count))
        return self.fb.builder.shuffle_vector(whole, poison(wide), shuffle_mask(tuple(range(count))))

    def masked_load(self, offset: Linear, kind: Type, mask: Value, *, in_bounds: bool = True) -> Value:
        """The contiguous elements of active lanes."""
        arguments = [self.pointer(offset, in_bounds=in_bounds), I32(self.alignment(offset)), mask, poison(kind)]
        return call_intrinsic(self.fb.builder, f"llvm.masked.load.{type_suffix(kind)}.p0", kind, *arguments)

    def gather(self, pattern: AccessPattern, lanes: VectorLanes) -> Value:
        """The elements of active lanes, anywhere."""
        kind, name = self.vector(lanes.count), f"v{lanes.count}p0"
        arguments = [self.addresses(pattern, lanes), I32(self.size), _active(lanes), poison(kind)]
        return call_intrinsic(self.fb.builder, f"llvm.masked.gather.{type_suffix(kind)}.{name}", kind, *arguments)

    def addresses(self, pattern: AccessPattern, lanes: VectorLanes) -> Value:
        """The address of each lane's element."""
        fb, base = self.fb, self.pointer(pattern.start, in_bounds=False)
        steps = llvm.Constant(llvm.VectorType(fb.index_type, lanes.count), list(pattern.steps))
        rest = emit_terms(fb, pattern.rest, lanes)
        distance = steps if rest is None else fb.builder.add(broadcast(fb.builder, rest, lanes.count), steps)
        result = fb.builder.gep(base, [distance], source_etype=self.kind)
        result.type = llvm.VectorType(POINTER, lanes.count)  # llvmlite assumes the type of the base
        return result

    # --- stores

    def store(self, indices: tuple[ir.Expr, ...], value: Value, lanes: VectorLanes | None) -> None:
        """An element, or one per active lane."""
        offset = offset_of(self.fb, self.name, indices)
        if lanes is None:
            return self.store_one(offset, value)
        value, pattern = broadcast(self.fb.builder, value, lanes.count), pattern_of(self.fb, offset, lanes)
        if not pattern.is_contiguous and pattern.is_static and lanes.mask is None:
            return self.store_lane_by_lane(pattern, value)
        if not pattern.is_contiguous:
            return self.scatter(pattern, value, lanes)
        if lanes.mask is None:
            return self.store_vector(_first(pattern), value)
        return self.masked_store(_first(pattern), value, lanes.mask, in_bounds=False)

    def store_one(self, offset: Linear, value: Value) -> None:
        """A value, an element or a vector, at an offset."""
        address = self.pointer(offset)
        self.fb.builder.store(value, address, align=self.alignment(offset))

    def store_lane_by_lane(self, pattern: AccessPattern, value: Value) -> None:
        """The lanes one by one: as fast as a scatter, and LLVM may merge adjacent stores."""
        for lane, step in enumerate(pattern.steps):
            self.store_one(pattern.start + step, self.fb.builder.extract_element(value, I32(lane)))

    def store_vector(self, offset: Linear, value: Value) -> None:
        """The counterpart of `load_vector`."""
        count = value.type.count
        if not self.prefers_mask(count):
            return self.store_one(offset, value)
        width = _next_power_of_two(count)
        widened = shuffle_mask(tuple(min(lane, count - 1) for lane in range(width)))
        whole = self.fb.builder.shuffle_vector(value, poison(value.type), widened)
        return self.masked_store(offset, whole, _prefix_mask(width, count))

    def masked_store(self, offset: Linear, value: Value, mask: Value, *, in_bounds: bool = True) -> None:
        """The counterpart of `masked_load`."""
        arguments = [value, self.pointer(offset, in_bounds=in_bounds), I32(self.alignment(offset)), mask]
        call_intrinsic(self.fb.builder, f"llvm.masked.store.{type_suffix(value.type)}.p0", VOID, *arguments)

    def scatter(self, pattern: AccessPattern, value: Value, lanes: VectorLanes) -> None:
        """The counterpart of `gather`."""
        arguments = [value, self.addresses(pattern, lanes), I32(self.size), _active(lanes)]
        name = f"llvm.masked.scatter.{type_suffix(value.type)}.v{lanes.count}p0"
        call_intrinsic(self.fb.builder, name, VOID, *arguments)

    # --- choices

    def prefers_mask(self, count: int) -> bool:
        """Whether a masked access of `count` elements is faster than several partial ones.

        It is for part of one vector, if the elements are large or the vector is short. A mask would
        keep a stack buffer out of registers.
        """
        target, whole = self.fb.target, _next_power_of_two(count)
        if whole == count or not target.has("avx512vl") or self.fits_registers():
            return False
        if self.size >= _MASKED_BYTES:
            return whole * self.size <= target.vector_bytes
        return whole * self.size <= _SHORT_BYTES and target.has("avx512bw")

    def fits_registers(self) -> bool:
        """Whether a stack buffer can live in registers, when accessed at constant offsets."""
        target, buffer = self.fb.target, self.fb.buffers[self.name]
        register_bytes = target.vector_bytes * target.vector_registers
        return buffer.scope == "stack" and self.size * prod(buffer.dims) <= register_bytes


def _first(pattern: AccessPattern) -> Linear:
    return pattern.start + min(pattern.steps)


def _next_power_of_two(count: int) -> int:
    """The least power of two not below `count`."""
    return 1 << (count - 1).bit_length()


def _prefix_mask(lanes: int, count: int) -> Value:
    """A mask of the first `count` lanes."""
    return llvm.Constant(llvm.VectorType(I1, lanes), [int(lane < count) for lane in range(lanes)])


def _active(lanes: VectorLanes) -> Value:
    """The mask of active lanes."""
    return lanes.mask if lanes.mask is not None else constant(llvm.VectorType(I1, lanes.count), 1)
