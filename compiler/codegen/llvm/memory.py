"""Loads and stores of elements: scalars, or vectors along the lanes of a loop.

Lanes at small known distances are read by one load of the whole span and a shuffle. That load stays
inside the buffer, since its first and last element do. Other lanes are gathered.
"""

from __future__ import annotations

from math import prod

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import element_bytes
from vdla.compiler.arith import Linear
from vdla.compiler.codegen.llvm.addresses import alignment, element_pointer, emit_terms, offset_of
from vdla.compiler.codegen.llvm.casts import from_memory, to_memory
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder
from vdla.compiler.codegen.llvm.lanes import AccessPattern, VectorLanes, access_pattern, is_inside
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
    return from_memory(fb.builder, _load(fb, name, indices, lanes), fb.buffers[name].dtype)


def _load(fb: FunctionBuilder, name: str, indices: tuple[ir.Expr, ...], lanes: VectorLanes | None) -> Value:
    offset = offset_of(fb, name, indices)
    inside = is_inside(indices, fb.buffers[name], lane_ranges(fb, lanes))
    mask = None if lanes is None or inside else lanes.mask
    if lanes is None:
        return _load_one(fb, name, offset, _stored_type(fb, name))
    pattern = access_pattern(offset, lanes)
    if pattern.is_uniform:
        return _load_uniform(fb, name, pattern.start + pattern.steps[0], mask)
    if pattern.is_contiguous and mask is not None:
        return _load_masked(fb, name, pattern, mask)
    by_lane = is_gpu(fb.target) and not pattern.is_contiguous  # a GPU has no shuffles within a thread
    if pattern.is_static and mask is None and not by_lane and pattern.span <= _MAX_SPAN * lanes.count:
        return _load_span(fb, name, pattern)
    if pattern.is_static and mask is None and (by_lane or _fits_registers(fb, name)):
        return _load_lane_by_lane(fb, name, pattern)
    return _gather(fb, name, pattern, lanes.with_mask(mask))


def lane_ranges(fb: FunctionBuilder, lanes: VectorLanes | None) -> dict[str, tuple[int, int]]:
    """The bounds of all variables, the lane variable included."""
    return fb.ranges if lanes is None else {**fb.ranges, lanes.var: (0, lanes.count - 1)}


def _stored_type(fb: FunctionBuilder, name: str) -> Type:
    return stored_type(fb.buffers[name].dtype, fb.target)


def _load_one(fb: FunctionBuilder, name: str, offset: Linear, kind: Type) -> Value:
    """A value of type `kind`, an element or a vector, at an offset."""
    address = element_pointer(fb, name, offset, in_bounds=True)
    return fb.builder.load(address, typ=kind, align=alignment(fb, name, offset))


def _load_uniform(fb: FunctionBuilder, name: str, offset: Linear, mask: Value | None) -> Value:
    """One element for all lanes; not read if no lane is active."""
    kind = _stored_type(fb, name)
    if mask is None:
        return _load_one(fb, name, offset, kind)
    any_active = call_intrinsic(fb.builder, f"llvm.vector.reduce.or.{type_suffix(mask.type)}", I1, mask)
    return fb.choose(any_active, lambda: _load_one(fb, name, offset, kind), lambda: poison(kind))


def _first(pattern: AccessPattern) -> Linear:
    return pattern.start + min(pattern.steps)


def _load_span(fb: FunctionBuilder, name: str, pattern: AccessPattern) -> Value:
    if pattern.is_contiguous:
        return _load_vector(fb, name, _first(pattern), pattern.span)
    steps = [step - min(pattern.steps) for step in pattern.steps]
    width, span = _next_power_of_two(len(steps)), pattern.span
    if not width < span <= 2 * width:
        whole = _load_vector(fb, name, _first(pattern), span)
        return fb.builder.shuffle_vector(whole, poison(whole.type), shuffle_mask(tuple(steps)))
    kind = llvm.VectorType(_stored_type(fb, name), width)
    low = _load_one(fb, name, _first(pattern), kind)
    high = _load_one(fb, name, _first(pattern) + (span - width), kind)  # may overlap the first
    mask = tuple(step if step < width else step - span + 2 * width for step in steps)
    return fb.builder.shuffle_vector(low, high, shuffle_mask(mask))


def _load_lane_by_lane(fb: FunctionBuilder, name: str, pattern: AccessPattern) -> Value:
    """The lanes one by one; of a buffer in registers, LLVM turns this into shuffles."""
    kind = _stored_type(fb, name)
    result = poison(llvm.VectorType(kind, len(pattern.steps)))
    for lane, step in enumerate(pattern.steps):
        element = _load_one(fb, name, pattern.start + step, kind)
        result = fb.builder.insert_element(result, element, I32(lane))
    return result


def _next_power_of_two(count: int) -> int:
    """The least power of two not below `count`."""
    return 1 << (count - 1).bit_length()


def _load_vector(fb: FunctionBuilder, name: str, offset: Linear, count: int) -> Value:
    """`count` contiguous elements; one masked load, if that beats several partial loads."""
    kind = _stored_type(fb, name)
    if not _prefers_mask(fb, name, count):
        return _load_one(fb, name, offset, llvm.VectorType(kind, count))
    wide = llvm.VectorType(kind, _next_power_of_two(count))
    arguments = [element_pointer(fb, name, offset, in_bounds=True), I32(alignment(fb, name, offset))]
    arguments += [_prefix_mask(wide.count, count), poison(wide)]
    whole = call_intrinsic(fb.builder, f"llvm.masked.load.{type_suffix(wide)}.p0", wide, *arguments)
    return fb.builder.shuffle_vector(whole, poison(wide), shuffle_mask(tuple(range(count))))


def _store_vector(fb: FunctionBuilder, name: str, offset: Linear, value: Value) -> None:
    """The counterpart of `_load_vector`."""
    count = value.type.count
    if not _prefers_mask(fb, name, count):
        return _store_one(fb, name, offset, value)
    width = _next_power_of_two(count)
    widened = shuffle_mask(tuple(min(lane, count - 1) for lane in range(width)))
    whole = fb.builder.shuffle_vector(value, poison(value.type), widened)
    arguments = [whole, element_pointer(fb, name, offset, in_bounds=True), I32(alignment(fb, name, offset))]
    arguments.append(_prefix_mask(width, count))
    call_intrinsic(fb.builder, f"llvm.masked.store.{type_suffix(whole.type)}.p0", VOID, *arguments)


def _prefers_mask(fb: FunctionBuilder, name: str, count: int) -> bool:
    """Whether a masked access of `count` elements is faster than several partial ones.

    It is for part of one vector, if the elements are large or the vector is short. A mask would
    keep a stack buffer out of registers.
    """
    target, size = fb.target, element_bytes(fb.buffers[name].dtype)
    whole = _next_power_of_two(count)
    if whole == count or not target.has("avx512vl") or _fits_registers(fb, name):
        return False
    if size >= _MASKED_BYTES:
        return whole * size <= target.vector_bytes
    return whole * size <= _SHORT_BYTES and target.has("avx512bw")


def _fits_registers(fb: FunctionBuilder, name: str) -> bool:
    """Whether a stack buffer can live in registers, when accessed at constant offsets."""
    target, buffer = fb.target, fb.buffers[name]
    register_bytes = target.vector_bytes * target.vector_registers
    return buffer.scope == "stack" and element_bytes(buffer.dtype) * prod(buffer.dims) <= register_bytes


def _prefix_mask(lanes: int, count: int) -> Value:
    """A mask of the first `count` lanes."""
    return llvm.Constant(llvm.VectorType(I1, lanes), [int(lane < count) for lane in range(lanes)])


def _load_masked(fb: FunctionBuilder, name: str, pattern: AccessPattern, mask: Value) -> Value:
    kind = llvm.VectorType(_stored_type(fb, name), len(pattern.steps))
    address = element_pointer(fb, name, _first(pattern), in_bounds=False)
    arguments = [address, I32(alignment(fb, name, _first(pattern))), mask, poison(kind)]
    return call_intrinsic(fb.builder, f"llvm.masked.load.{type_suffix(kind)}.p0", kind, *arguments)


def _addresses(fb: FunctionBuilder, name: str, pattern: AccessPattern, lanes: VectorLanes) -> Value:
    """The address of each lane's element."""
    base = element_pointer(fb, name, pattern.start, in_bounds=False)
    steps = llvm.Constant(llvm.VectorType(fb.index_type, lanes.count), list(pattern.steps))
    rest = emit_terms(fb, pattern.rest, lanes)
    distance = steps if rest is None else fb.builder.add(broadcast(fb.builder, rest, lanes.count), steps)
    kind = _stored_type(fb, name)
    result = fb.builder.gep(base, [distance], source_etype=kind)
    result.type = llvm.VectorType(POINTER, lanes.count)  # llvmlite assumes the type of the base
    return result


def _element_alignment(fb: FunctionBuilder, name: str) -> Value:
    """The natural alignment of an element, as an operand."""
    return I32(element_bytes(fb.buffers[name].dtype))


def _gather(fb: FunctionBuilder, name: str, pattern: AccessPattern, lanes: VectorLanes) -> Value:
    kind = llvm.VectorType(_stored_type(fb, name), lanes.count)
    arguments = [_addresses(fb, name, pattern, lanes), _element_alignment(fb, name), _active(lanes)]
    arguments.append(poison(kind))
    return call_intrinsic(fb.builder, f"llvm.masked.gather.{type_suffix(kind)}.v{lanes.count}p0", kind, *arguments)


def _active(lanes: VectorLanes) -> Value:
    """The mask of active lanes."""
    return lanes.mask if lanes.mask is not None else constant(llvm.VectorType(I1, lanes.count), 1)


def load_contiguous(fb: FunctionBuilder, name: str, offset: Linear, length: int) -> Value:
    """`length` contiguous elements as a vector."""
    dtype = fb.buffers[name].dtype
    return from_memory(fb.builder, _load_one(fb, name, offset, llvm.VectorType(_stored_type(fb, name), length)), dtype)


def store_contiguous(fb: FunctionBuilder, name: str, offset: Linear, value: Value) -> None:
    """Store a vector to contiguous elements."""
    _store_one(fb, name, offset, to_memory(fb.builder, value, fb.buffers[name].dtype))


def prefetch(fb: FunctionBuilder, name: str, indices: tuple[ir.Expr, ...]) -> None:
    """Prefetch the cache line of an element, which may lie outside the buffer."""
    address = element_pointer(fb, name, offset_of(fb, name, indices), in_bounds=False)
    read, high_locality, data_cache = I32(0), I32(3), I32(1)
    call_intrinsic(fb.builder, "llvm.prefetch.p0", VOID, address, read, high_locality, data_cache)


# --- stores ---------------------------------------------------------------------------------------


def store(
    fb: FunctionBuilder, name: str, indices: tuple[ir.Expr, ...], value: Value, lanes: VectorLanes | None = None
) -> None:
    """Store an element, or one per active lane; of lanes that write one element, the last wins."""
    value = to_memory(fb.builder, value, fb.buffers[name].dtype)
    offset = offset_of(fb, name, indices)
    if lanes is None:
        return _store_one(fb, name, offset, value)
    value, pattern = broadcast(fb.builder, value, lanes.count), access_pattern(offset, lanes)
    if not pattern.is_contiguous and pattern.is_static and lanes.mask is None:
        return _store_lane_by_lane(fb, name, pattern, value)
    if not pattern.is_contiguous:
        return _scatter(fb, name, pattern, value, lanes)
    if lanes.mask is None:
        return _store_vector(fb, name, _first(pattern), value)
    return _store_masked(fb, name, pattern, value, lanes.mask)


def _store_one(fb: FunctionBuilder, name: str, offset: Linear, value: Value) -> None:
    address = element_pointer(fb, name, offset, in_bounds=True)
    fb.builder.store(value, address, align=alignment(fb, name, offset))


def _store_masked(fb: FunctionBuilder, name: str, pattern: AccessPattern, value: Value, mask: Value) -> None:
    address = element_pointer(fb, name, _first(pattern), in_bounds=False)
    arguments = [value, address, I32(alignment(fb, name, _first(pattern))), mask]
    call_intrinsic(fb.builder, f"llvm.masked.store.{type_suffix(value.type)}.p0", VOID, *arguments)


def _store_lane_by_lane(fb: FunctionBuilder, name: str, pattern: AccessPattern, value: Value) -> None:
    """The lanes one by one: as fast as a scatter, and LLVM may merge adjacent stores."""
    for lane, step in enumerate(pattern.steps):
        element = fb.builder.extract_element(value, I32(lane))
        _store_one(fb, name, pattern.start + step, element)


def _scatter(fb: FunctionBuilder, name: str, pattern: AccessPattern, value: Value, lanes: VectorLanes) -> None:
    arguments = [value, _addresses(fb, name, pattern, lanes), _element_alignment(fb, name), _active(lanes)]
    name = f"llvm.masked.scatter.{type_suffix(value.type)}.v{lanes.count}p0"
    call_intrinsic(fb.builder, name, VOID, *arguments)
