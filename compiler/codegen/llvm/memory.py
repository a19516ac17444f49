"""Loads and stores of elements, one or a vector of them.

Lanes that lie near each other at known distances come with one load of all that lies between and a shuffle; it reads
nothing outside of the buffer, since the first and the last element are inside. Other lanes are gathered one by one.
"""

from __future__ import annotations

from math import prod

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.arith import Linear
from vdla.compiler.codegen.llvm.addresses import alignment, place_of, pointer, total
from vdla.compiler.codegen.llvm.casts import from_memory, to_memory
from vdla.compiler.codegen.llvm.function_builder import Frame
from vdla.compiler.codegen.llvm.lanes import Lanes, Pattern, is_inside, pattern_of
from vdla.compiler.codegen.llvm.types import (
    I1,
    I32,
    POINTER,
    VOID,
    Type,
    Value,
    broadcast,
    constant,
    intrinsic,
    lane_order,
    nbytes,
    stored_type,
    suffix,
    undefined,
)

MASKED_BYTES = 4  # elements from which on AVX-512 itself has masks
SHORT_BYTES = 16  # up to which a vector of smaller ones has a mask: longer ones are as fast piece by piece
MAX_SPAN = 4  # times the lanes: up to so much is loaded for a shuffle


def load(frame: Frame, name: str, indices: tuple[ir.Expr, ...], lanes: Lanes | None = None) -> Value:
    """An element, or one for every lane; what the lanes outside of the mask get is arbitrary."""
    return from_memory(frame.builder, _load(frame, name, indices, lanes), frame.kernel.fn.buffers[name].dtype)


def _load(frame: Frame, name: str, indices: tuple[ir.Expr, ...], lanes: Lanes | None) -> Value:
    form = place_of(frame, name, indices)
    inside = is_inside(indices, frame.kernel.fn.buffers[name], all_ranges(frame, lanes))
    mask = None if lanes is None or inside else lanes.mask
    if lanes is None:
        return _read(frame, name, form, _kind(frame, name))
    pattern = pattern_of(form, lanes)
    if pattern.is_uniform:
        return _load_one(frame, name, pattern.start + Linear({}, pattern.steps[0]), mask)
    if pattern.is_contiguous and mask is not None:
        return _load_masked(frame, name, pattern, mask)
    if pattern.is_static and mask is None and pattern.span <= MAX_SPAN * lanes.count:
        return _load_near(frame, name, pattern)
    if pattern.is_static and mask is None and in_registers(frame, name):
        return _load_each(frame, name, pattern)
    return _gather(frame, name, pattern, lanes.only(mask))


def all_ranges(frame: Frame, lanes: Lanes | None) -> dict[str, tuple[int, int]]:
    """The bounds of the variables, the lane variable among them."""
    return frame.ranges if lanes is None else {**frame.ranges, lanes.var: (0, lanes.count - 1)}


def _kind(frame: Frame, name: str) -> Type:
    return stored_type(frame.kernel.fn.buffers[name].dtype, frame.kernel.target)


def _read(frame: Frame, name: str, form: Linear, kind: Type, sure: bool = True) -> Value:
    address = pointer(frame, name, form, sure)
    return frame.builder.load(address, typ=kind, align=alignment(frame, name, form))


def _load_one(frame: Frame, name: str, form: Linear, mask: Value | None) -> Value:
    """One element for all lanes, not read where no lane takes part."""
    kind = _kind(frame, name)
    if mask is None:
        return _read(frame, name, form, kind)
    some = intrinsic(frame.builder, f"llvm.vector.reduce.or.{suffix(mask.type)}", I1, [mask])
    return frame.choose(some, lambda: _read(frame, name, form, kind), lambda: undefined(kind))


def _first(pattern: Pattern) -> Linear:
    return pattern.start + Linear({}, min(pattern.steps))


def _load_near(frame: Frame, name: str, pattern: Pattern) -> Value:
    if pattern.is_contiguous:
        return _load_run(frame, name, _first(pattern), pattern.span)
    steps = [step - min(pattern.steps) for step in pattern.steps]
    width, span = whole_vector(len(steps)), pattern.span
    if not width < span <= 2 * width:
        whole = _load_run(frame, name, _first(pattern), span)
        return frame.builder.shuffle_vector(whole, undefined(whole.type), lane_order(tuple(steps)))
    kind = llvm.VectorType(_kind(frame, name), width)
    low = _read(frame, name, _first(pattern), kind)
    high = _read(frame, name, _first(pattern) + Linear({}, span - width), kind)  # they may overlap
    order = tuple(step if step < width else step - span + 2 * width for step in steps)
    return frame.builder.shuffle_vector(low, high, lane_order(order))


def _load_each(frame: Frame, name: str, pattern: Pattern) -> Value:
    """The lanes one by one: of what is in registers, LLVM makes shuffles of them."""
    kind = _kind(frame, name)
    result = undefined(llvm.VectorType(kind, len(pattern.steps)))
    for lane, step in enumerate(pattern.steps):
        element = _read(frame, name, pattern.start + Linear({}, step), kind)
        result = frame.builder.insert_element(result, element, I32(lane))
    return result


def whole_vector(count: int) -> int:
    """The least power of two that holds so many lanes."""
    return 1 << (count - 1).bit_length()


def _load_run(frame: Frame, name: str, form: Linear, count: int) -> Value:
    """Elements one behind the other; an odd number with one masked load where there are masks, not piece by piece."""
    kind = _kind(frame, name)
    if not has_masks(frame, name, count):
        return _read(frame, name, form, llvm.VectorType(kind, count))
    wide = llvm.VectorType(kind, whole_vector(count))
    arguments = [pointer(frame, name, form, sure=True), I32(alignment(frame, name, form))]
    arguments += [leading(wide.count, count), undefined(wide)]
    whole = intrinsic(frame.builder, f"llvm.masked.load.{suffix(wide)}.p0", wide, arguments)
    return frame.builder.shuffle_vector(whole, undefined(wide), lane_order(tuple(range(count))))


def _write_run(frame: Frame, name: str, form: Linear, value: Value) -> None:
    """The counterpart of `_load_run`."""
    count = value.type.count
    if not has_masks(frame, name, count):
        return _write(frame, name, form, value)
    width = whole_vector(count)
    order = tuple(min(lane, count - 1) for lane in range(width))
    whole = frame.builder.shuffle_vector(value, undefined(value.type), lane_order(order))
    arguments = [whole, pointer(frame, name, form, sure=True), I32(alignment(frame, name, form)), leading(width, count)]
    intrinsic(frame.builder, f"llvm.masked.store.{suffix(whole.type)}.p0", VOID, arguments)


def has_masks(frame: Frame, name: str, count: int) -> bool:
    """Whether `count` elements are worth a masked access: no whole vector, and no more than one; a short one of bytes.

    A mask would keep a buffer from registers.
    """
    target, size = frame.kernel.target, nbytes(frame.kernel.fn.buffers[name].dtype)
    whole = whole_vector(count)
    if whole == count or not target.has("avx512vl") or in_registers(frame, name):
        return False
    if size >= MASKED_BYTES:
        return whole * size <= target.vector_bytes
    return whole * size <= SHORT_BYTES and target.has("avx512bw")


def in_registers(frame: Frame, name: str) -> bool:
    """Whether a buffer is on the stack and small enough to live in registers, if its places are known."""
    target, buffer = frame.kernel.target, frame.kernel.fn.buffers[name]
    room = target.vector_bytes * target.vector_registers
    return buffer.scope == "stack" and nbytes(buffer.dtype) * prod(buffer.dims) <= room


def leading(lanes: int, count: int) -> Value:
    """The mask of the first `count` of the lanes."""
    return llvm.Constant(llvm.VectorType(I1, lanes), [int(lane < count) for lane in range(lanes)])


def _load_masked(frame: Frame, name: str, pattern: Pattern, mask: Value) -> Value:
    kind = llvm.VectorType(_kind(frame, name), len(pattern.steps))
    address = pointer(frame, name, _first(pattern), sure=False)
    arguments = [address, I32(_align(frame, name, pattern)), mask, undefined(kind)]
    return intrinsic(frame.builder, f"llvm.masked.load.{suffix(kind)}.p0", kind, arguments)


def _align(frame: Frame, name: str, pattern: Pattern) -> int:
    return alignment(frame, name, _first(pattern))


def _addresses(frame: Frame, name: str, pattern: Pattern, lanes: Lanes) -> Value:
    """The address of each lane's element."""
    base = pointer(frame, name, pattern.start, sure=False)
    steps = llvm.Constant(llvm.VectorType(frame.kernel.index, lanes.count), list(pattern.steps))
    rest = total(frame, pattern.rest, lanes)
    distance = steps if rest is None else frame.builder.add(broadcast(frame.builder, rest, lanes.count), steps)
    kind = _kind(frame, name)
    result = frame.builder.gep(base, [distance], source_etype=kind)
    result.type = llvm.VectorType(POINTER, lanes.count)  # the library takes it for the type of the base
    return result


def _size(frame: Frame, name: str) -> Value:
    """The alignment of single elements."""
    return I32(nbytes(frame.kernel.fn.buffers[name].dtype))


def _gather(frame: Frame, name: str, pattern: Pattern, lanes: Lanes) -> Value:
    kind = llvm.VectorType(_kind(frame, name), lanes.count)
    arguments = [_addresses(frame, name, pattern, lanes), _size(frame, name), _mask(lanes)]
    arguments.append(undefined(kind))
    return intrinsic(frame.builder, f"llvm.masked.gather.{suffix(kind)}.v{lanes.count}p0", kind, arguments)


def _mask(lanes: Lanes) -> Value:
    """The lanes that take part, all if there is no mask."""
    return lanes.mask if lanes.mask is not None else constant(llvm.VectorType(I1, lanes.count), 1)


def load_run(frame: Frame, name: str, place: Linear, length: int) -> Value:
    """`length` elements, one behind the other, as a vector."""
    dtype = frame.kernel.fn.buffers[name].dtype
    return from_memory(frame.builder, _read(frame, name, place, llvm.VectorType(_kind(frame, name), length)), dtype)


def store_run(frame: Frame, name: str, place: Linear, value: Value) -> None:
    """Write a vector to elements that lie one behind the other."""
    _write(frame, name, place, to_memory(frame.builder, value, frame.kernel.fn.buffers[name].dtype))


def prefetch(frame: Frame, name: str, indices: tuple[ir.Expr, ...]) -> None:
    """Ask for the cache line of an element, which may lie outside of the buffer."""
    address = pointer(frame, name, place_of(frame, name, indices), sure=False)
    read, keep, data = I32(0), I32(3), I32(1)
    intrinsic(frame.builder, "llvm.prefetch.p0", VOID, [address, read, keep, data])


# --- stores ----------------------------------------------------------------------------------------------------------


def store(frame: Frame, name: str, indices: tuple[ir.Expr, ...], value: Value, lanes: Lanes | None = None) -> None:
    """Write an element, or one for every lane of the mask; where several lanes write one element, the last stays."""
    value = to_memory(frame.builder, value, frame.kernel.fn.buffers[name].dtype)
    form = place_of(frame, name, indices)
    if lanes is None:
        return _write(frame, name, form, value)
    value, pattern = broadcast(frame.builder, value, lanes.count), pattern_of(form, lanes)
    if not pattern.is_contiguous and pattern.is_static and lanes.mask is None:
        return _store_each(frame, name, pattern, value)
    if not pattern.is_contiguous:
        return _scatter(frame, name, pattern, value, lanes)
    if lanes.mask is None:
        return _write_run(frame, name, _first(pattern), value)
    return _store_masked(frame, name, pattern, value, lanes.mask)


def _write(frame: Frame, name: str, form: Linear, value: Value) -> None:
    address = pointer(frame, name, form, sure=True)
    frame.builder.store(value, address, align=alignment(frame, name, form))


def _store_masked(frame: Frame, name: str, pattern: Pattern, value: Value, mask: Value) -> None:
    address = pointer(frame, name, _first(pattern), sure=False)
    arguments = [value, address, I32(_align(frame, name, pattern)), mask]
    intrinsic(frame.builder, f"llvm.masked.store.{suffix(value.type)}.p0", VOID, arguments)


def _store_each(frame: Frame, name: str, pattern: Pattern, value: Value) -> None:
    """The lanes one by one: no slower than a scatter, and where neighbours are written too, LLVM joins them."""
    for lane, step in enumerate(pattern.steps):
        element = frame.builder.extract_element(value, I32(lane))
        _write(frame, name, pattern.start + Linear({}, step), element)


def _scatter(frame: Frame, name: str, pattern: Pattern, value: Value, lanes: Lanes) -> None:
    arguments = [value, _addresses(frame, name, pattern, lanes), _size(frame, name), _mask(lanes)]
    function = f"llvm.masked.scatter.{suffix(value.type)}.v{lanes.count}p0"
    intrinsic(frame.builder, function, VOID, arguments)
