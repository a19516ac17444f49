# SPDX-License-Identifier: Apache-2.0
"""The interpreter of functions on symbols in place of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import function_ranges
from vdla.compiler.certificates.best_pairs import BestPairs, PairChoice, pair_choice
from vdla.compiler.certificates.elementwise import Elementwise, Leaf, broadcast_leaves, combined, leaves_of, numbers
from vdla.compiler.certificates.functions_in_use import small_functions
from vdla.compiler.certificates.look_up import looked_up
from vdla.compiler.certificates.operations import binary, called, cast, combined_along, select
from vdla.compiler.certificates.products import LocatedFactor, Matrices, located, products_of
from vdla.compiler.certificates.repeated_terms import repeated
from vdla.compiler.certificates.sum_bounds import SumBounds
from vdla.compiler.certificates.symbols import (
    OPAQUE,
    SYMBOL,
    CertificateError,
    SymbolForm,
    Symbols,
    chosen,
    gathered,
    known,
    settled,
    type_bounds,
)
from vdla.compiler.certificates.work_limit import spend_function
from vdla.compiler.interpret.batched import BatchedNest, batched_nest, reduction_term, run_batched
from vdla.compiler.interpret.memory import EVERYWHERE, Indices, InterpreterMemory, Mask, Points
from vdla.compiler.interpret.scalar import ClosureCompiler
from vdla.compiler.ir import Array, limits

_MOST_ELEMENTS = 1 << 23  # of a factor in a sum of products


class _Buffers(dict[str, Any]):
    """Arrays of symbols by the names of buffers. Those of `integers` become symbols, and are no
    integers any more, as soon as something else than a sum of products needs them.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        super().__init__(arrays)
        self.integers: dict[str, Array] = {}

    def __missing__(self, name: str) -> Symbols:
        self[name] = numbers(self.integers.pop(name))
        made: Symbols = self[name]
        return made


class SymbolicMemory(InterpreterMemory):
    """Buffers of symbols; `sums` are the bounds of all reductions."""

    arrays: _Buffers
    sums: SumBounds
    _shared: dict[int, tuple[Points, dict[int, Symbols]]] | None = None

    def __init__(self, buffers: Mapping[str, ir.Buffer], indices: Indices) -> None:
        super().__init__(buffers, indices)
        self.arrays = _Buffers(self.arrays)
        self._pairs = BestPairs()

    def fill(self, name: str, array: Array) -> None:
        """Sets the content of a whole buffer; integers are numbers."""
        super().fill(name, array)
        if array.dtype != SYMBOL:
            self.arrays.integers[name] = self.arrays.pop(name)

    @staticmethod
    def stored(dtype: str) -> np.dtype[Any]:
        """Symbols of every type."""
        return SYMBOL

    def store_all(self, stores: tuple[ir.Store, ...], at: Points) -> None:
        """Stores simultaneously; what values have in common is evaluated once."""
        self._shared = {}
        choice = pair_choice(stores) if len(stores) > 1 else None
        if choice is None:
            super().store_all(stores, at)
        else:
            self._store_better(choice, stores, at)
        self._shared = None

    def _store_better(self, choice: PairChoice, stores: tuple[ir.Store, ...], at: Points) -> None:
        """Stores the better one of two pairs."""
        ready = [(store.buffer, self.places(store.indices, at)) for store in stores]
        new, old = (self._integers(pair, at) for pair in (choice.new, choice.old))
        made = self._pairs.better(choice.lemma, new, old, lambda: self.value(stores[1].value, at))
        for (name, places), value in zip(ready, made, strict=True):
            self.store(name, places, value, at)

    def _integers(self, pair: tuple[ir.Expr, ir.Expr], at: Points) -> tuple[Symbols, Symbols]:
        first, second = (settled(self.value(part, at), self._dtype(part)) for part in pair)
        return first, second

    def value(self, expr: ir.Expr, at: Points) -> Symbols:
        """The value of `expr`, which broadcasts with the points; arbitrary at inactive points."""
        if self._shared is None:
            return self._evaluated(expr, at)
        values = self._shared.setdefault(id(at), (at, {}))[1]
        if id(expr) not in values:
            values[id(expr)] = self._evaluated(expr, at)
        return values[id(expr)]

    def _evaluated(self, expr: ir.Expr, at: Points) -> Symbols:
        compiled = self._compiled(expr, at) if isinstance(expr, (ir.Binary, ir.Cast)) else None
        return self._by_operations(expr, at) if compiled is None else compiled

    def _compiled(self, expr: ir.Expr, at: Points) -> Symbols | None:
        """The value of an expression in one pass; None where that is not covered."""
        leaves = leaves_of(expr, self._dtype)
        if not leaves or small_functions() is not None:
            return None
        arrays, shape = broadcast_leaves([self.value(leaf, at) for leaf in leaves])
        known = {id(leaf): array for leaf, array in zip(leaves, arrays, strict=True)}
        made = Elementwise(self._dtype, lambda leaf: known[id(leaf)]).value(expr, int(np.prod(shape)))
        return None if made is None else made.reshape(shape)

    def _by_operations(self, expr: ir.Expr, at: Points) -> Symbols:
        match expr:
            case ir.Var(name=name):
                return numbers(at.values[name])
            case ir.Const(value=value):
                return numbers(int(value))
            case ir.Binary(op=op, a=a, b=b):
                return binary(op, self.value(a, at), self.value(b, at), self._dtype(a))
            case ir.Cast(dtype=dtype, value=inner):
                return cast(self.value(inner, at), self._dtype(inner), dtype)
            case ir.Select(cond=cond, a=a, b=b):
                return self._chosen(cond, a, b, at)
            case ir.Load(buffer=buffer, indices=indices):
                if any(map(ir.reads_memory, indices)):
                    return self._looked_up(buffer, indices, at)
                return self._load(buffer, tuple(self.places(indices, at)), at)
            case ir.Call(name=name, args=args, dtype=dtype):
                return called(name, [self.value(a, at) for a in args], [self._dtype(a) for a in args], dtype)

    def _load(self, name: str, places: tuple[Array, ...], at: Points) -> Symbols:
        if name in self.given or not self._is_written(name):
            return super()._load(name, places, at)
        self.given.add(name)
        try:
            return super()._load(name, places, at)
        finally:
            self.given.discard(name)

    def _looked_up(self, name: str, indices: tuple[ir.Expr, ...], at: Points) -> Symbols:
        """Elements at places that depend on inputs: functions of the place and of all elements."""
        array = self.arrays[name].reshape(-1)
        if not self._is_written(name):
            rule = "all elements of a table must be written before one is looked up"
            raise CertificateError(f"certify: block {at.where}: {rule}, got others of {name}")
        place, elements = self._flat_place(name, indices, at), settled(array, self.buffers[name].dtype)
        functions = small_functions()
        if functions is None:
            return looked_up(elements, place)
        return functions.applied(lambda place: looked_up(elements, place), (place,), ("int64",))

    def _flat_place(self, name: str, indices: tuple[ir.Expr, ...], at: Points) -> Symbols:
        """The place in the flat array of a buffer. The element at `[x // n, x % n]` of rows of n is
        that at x.
        """
        dims, d = self.buffers[name].dims, 0
        flat = numbers(0)
        while d < len(dims):
            whole = _whole_index(indices[d : d + 2], dims[d + 1 : d + 2])
            index, count = (indices[d], 1) if whole is None else (whole, 2)
            value, extent = settled(self.value(index, at), self._dtype(index)), prod(dims[d : d + count])
            if (at.mask & ((value["low"] < 0) | (value["high"] >= extent))).any():
                rule = f"an index that depends on inputs must be inside the shape {list(dims)}"
                raise CertificateError(f"certify: block {at.where}: {rule} for all inputs, got one of {name}")
            flat = binary("add", binary("mul", flat, numbers(extent), "int64"), value, "int64")
            d += count
        return flat

    def _is_written(self, name: str) -> bool:
        return bool(self.written[name].all())

    def store(self, name: str, places: list[Array], value: Symbols, at: Points) -> None:
        """Writes `value` at every active point."""
        array, shape = self.arrays[name], np.broadcast_shapes(*(place.shape for place in places))
        whole = at.mask.all() and prod(shape) == array.size and np.broadcast_shapes(shape, value.shape) == shape
        if not whole or not array.flags.c_contiguous:
            super().store(name, places, value, at)
            return
        target, values = array.view(OPAQUE).reshape(-1), np.broadcast_to(value.view(OPAQUE), shape).reshape(-1)
        if _in_order(places, array.shape):
            target[...] = values
            self.written[name][...] = True
            return
        self._check_inside("store", name, tuple(places), EVERYWHERE, at.where)
        flat = self._place(name, places).reshape(-1)
        target[flat] = values
        self.written[name].reshape(-1)[flat] = True

    def _place(self, name: str, places: Sequence[Array]) -> Array:
        """The places of elements in the flat array of a buffer."""
        flat: Any = np.int64(0)
        for place, extent in zip(places, self.arrays[name].shape, strict=True):
            flat = flat * extent + place
        return np.asarray(flat, np.int64)

    def elements(self, name: str, places: tuple[Array, ...]) -> Symbols:
        """The elements of a buffer."""
        return gathered(self.arrays[name].reshape(-1), self._place(name, places))

    def _dtype(self, expr: ir.Expr) -> str:
        return ir.dtype_of(expr, self.buffers)

    def _chosen(self, condition: ir.Expr, a: ir.Expr, b: ir.Expr, at: Points) -> Symbols:
        """`a` or `b`; where indices decide, only the selected one is evaluated."""
        function = self.indices.function(condition)
        if function is None:
            cond, compared = self._compared(condition, at)
            if not known(cond).all():
                return select(cond, self.value(a, at), self.value(b, at), self._dtype(a), compared)
            holds = np.asarray(cond["low"] == 1)
        else:
            holds = np.asarray(function(at.values), np.bool_)
        then, otherwise = at.only(holds), at.only(~holds)
        if not otherwise.mask.any():
            return self.value(a, at)
        if not then.mask.any():
            return self.value(b, at)
        return chosen(holds, self.value(a, then), self.value(b, otherwise))

    def _compared(self, condition: ir.Expr, at: Points) -> tuple[Symbols, tuple[str, Symbols, Symbols] | None]:
        """A condition, and if it is a comparison of integers, which one of what."""
        if not isinstance(condition, ir.Binary) or condition.op not in ir.COMPARE_OPS:
            return self.value(condition, at), None
        dtype = self._dtype(condition.a)
        a, b = (settled(self.value(operand, at), dtype) for operand in (condition.a, condition.b))
        return binary(condition.op, a, b, dtype), (condition.op, a, b)

    def index(self, expr: ir.Expr, at: Points) -> Any:  # noqa: ANN401  an int or an array of ints
        """An index or a condition, which must not depend on inputs."""
        function = self.indices.function(expr)
        return function(at.values) if function is not None else _number(self.value(expr, at), at.where)

    def total(
        self, op: str, term: ir.Expr, at: Points, shape: tuple[int, ...], along: tuple[int, ...], dtype: str
    ) -> Symbols:
        """The values of a term at points of a shape, combined over the dimensions `along`."""
        if op == "add" and isinstance(term, ir.Binary) and term.op == "mul" and at.mask is EVERYWHERE:
            factors = [self._located(factor, at) for factor in (term.a, term.b)]
            with self.sums.observing():
                products = _contracted(factors[0], factors[1], shape, len(along), partial(self.products, dtype=dtype))
            if products is not None:
                return products
        return super().total(op, term, at, shape, along, dtype)

    def _located(self, factor: ir.Expr, at: Points) -> LocatedFactor:
        """A factor of a sum; an element of a buffer, in another type or not, as its place."""
        if isinstance(factor, ir.Load) and not any(map(ir.reads_memory, factor.indices)):
            places, name = tuple(self.places(factor.indices, at)), factor.buffer
            inside = self._check_inside("load", name, places, at.mask, at.where)
            if inside and (name in self.given or self._is_written(name)):
                return LocatedFactor(self._flat(name), self._parts(name, places))
        if isinstance(factor, ir.Cast) and isinstance(factor.value, ir.Load):
            source = self._located(factor.value, at)
            if source.array.dtype != SYMBOL and self._widens(factor):
                return source
            if source.array.size <= source.size:
                array = source.array if source.array.dtype == SYMBOL else numbers(source.array)
                return LocatedFactor(self._converted(factor, array), source.parts)
        return located(self.value(factor, at))

    def _flat(self, name: str) -> Array:
        """The elements of a buffer, symbols or integers."""
        integers = self.arrays.integers.get(name)
        return (self.arrays[name] if integers is None else integers).reshape(-1)

    def _parts(self, name: str, places: tuple[Array, ...]) -> tuple[Array, ...]:
        """The parts of places in the flat array of a buffer."""
        dims = self.buffers[name].dims
        steps = [prod(dims[d + 1 :]) for d in range(len(dims))]
        parts = (place.astype(np.int64) * step for place, step in zip(places, steps, strict=True))
        return (np.zeros((1,), np.int64), *parts)

    def _widens(self, conversion: ir.Cast) -> bool:
        """Whether a conversion changes no number of its type."""
        (low, high), (least, most) = type_bounds(self._dtype(conversion.value)), type_bounds(conversion.dtype)
        return least <= low and high <= most

    def _converted(self, conversion: ir.Cast, array: Symbols) -> Symbols:
        """A whole buffer in another type."""
        source = self._dtype(conversion.value)
        made = Elementwise(self._dtype, lambda leaf: Leaf(array)).value(conversion, array.size)
        return cast(array, source, conversion.dtype) if made is None else made

    @staticmethod
    def products(a: Matrices, b: Matrices, dtype: str) -> Symbols | None:
        """`[..., M, K]` and `[..., K, N]` multiplied, or None."""
        return products_of(a, b, dtype)

    def sums_at_once(self, dtype: str) -> bool:
        """Sums are the same in every order."""
        return True

    def reduced(self, op: str, terms: Symbols, mask: Mask, along: tuple[int, ...], dtype: str) -> Symbols:
        """Terms where `mask` holds, combined over the dimensions `along`."""
        if not mask.all():
            identity = 0 if op == "add" else limits(dtype)[op == "min"]
            terms = chosen(mask, terms, numbers(identity))
        if op in ("min", "max"):
            return _extremes_along(op, terms, along, dtype)
        with self.sums.observing():
            return combined_along(op, terms, along, dtype)

    def combined(self, op: str, old: Symbols, total: Symbols, dtype: str) -> Symbols:
        """An element and a combination of terms, combined."""
        if (known(old) & (old["low"] == 0)).all():  # the start of a sum, which has its bounds
            rings = op == "add" and (total["form"] <= SymbolForm.POLYNOMIAL).all()
            return total if rings else binary(op, old, total, dtype)
        with self.sums.observing():
            return binary(op, old, total, dtype)


class SymbolicClosures(ClosureCompiler):
    """Statements as closures; expressions are those of the memory."""

    def statement(self, stmt: ir.Stmt, where: str | None = None) -> Any:  # noqa: ANN401  a closure
        """A statement as a closure, a sum of products in batches that its factors bound."""
        nest = _nest_of_products(stmt)
        return super().statement(stmt, where) if nest is None else partial(run_batched, self.memory, nest)

    @property
    def min_batch(self) -> int:
        """Batches of any size."""
        return 0

    def value(self, expr: ir.Expr, where: str) -> Any:  # noqa: ANN401  a closure
        """A value as a closure that returns a symbol."""
        return lambda env: self.memory.value(expr, Points(env, EVERYWHERE, where))[()]

    def index(self, expr: ir.Expr, where: str) -> Any:  # noqa: ANN401  a closure
        """An index or condition as a closure that returns an integer."""
        function = self.memory.indices.function(expr)
        if function is not None:
            return function
        return lambda env: int(_number(self.memory.value(expr, Points(env, EVERYWHERE, where)), where))


def _nest_of_products(stmt: ir.Stmt) -> BatchedNest | None:
    """A sum of products as a nest with batches in which each factor has few elements."""
    for most in (1 << bits for bits in range(48, 20, -3)):
        nest = batched_nest(stmt, most)
        term = reduction_term(nest.body) if nest is not None and nest.reduce else None
        if nest is None or term is None or not (isinstance(term[1], ir.Binary) and term[1].op == "mul"):
            return None
        if all(_elements(nest, factor) <= _MOST_ELEMENTS for factor in (term[1].a, term[1].b)):
            return nest
    return None


def _elements(nest: BatchedNest, factor: ir.Expr) -> int:
    """The points of a batch at which a factor may have different values."""
    read = {e.name for e in ir.find(factor, ir.Var)}
    for header in reversed((*nest.headers, nest.block)):
        if isinstance(header, ir.Block):
            for axis, value in header.bindings:
                if axis.var in read:
                    read |= {e.name for e in ir.find(value, ir.Var)}
    return prod(int(loop.size) for loop in (*nest.spatial, *nest.reduce) if loop.var in read)


def _extremes_along(op: str, terms: Symbols, along: tuple[int, ...], dtype: str) -> Symbols:
    """Minima or maxima along dimensions, which are kept with length 1."""
    kept = tuple(1 if d in along else n for d, n in enumerate(terms.shape))
    moved = np.moveaxis(terms, along, range(len(along)))
    rows = moved.reshape(-1, *moved.shape[len(along) :])
    result: Symbols = rows[0]
    for term, after in pairwise(rows):
        result = chosen(repeated(op, term, after, dtype), result, combined(op, result, after, dtype))
    return result.reshape(kept)


def _contracted(
    a: LocatedFactor,
    b: LocatedFactor,
    shape: tuple[int, ...],
    reduced: int,
    multiplied: Callable[[Matrices, Matrices], Symbols | None],
) -> Symbols | None:
    """Products of factors that broadcast to a shape, summed over its last dimensions, which keep
    length 1, by a product of matrices; None where that is none.
    """
    outer, rank = range(len(shape) - reduced), len(shape)
    (a, x, x_inner), (b, y, y_inner) = (_separated(factor, rank, len(outer)) for factor in (a, b))
    shared = [d for d in outer if x.shape[d] > 1 and y.shape[d] > 1]
    rows = [d for d in outer if y.shape[d] == 1 and x.shape[d] == shape[d]]
    columns = [d for d in outer if d not in shared and d not in rows]
    if any(x.shape[d] != 1 or y.shape[d] != shape[d] for d in columns):
        return None
    summed = [shape[d] for d in range(len(outer), rank)]
    kept, m, n = ([shape[d] for d in dims] for dims in (shared, rows, columns))
    x, y = (one.reshape(one.shape[: len(outer)]).transpose(*shared, *rows, *columns) for one in (x, y))
    terms = [np.broadcast_to(one, (*(1,) * len(outer), *summed)).reshape(-1) for one in (x_inner, y_inner)]
    products = multiplied(
        Matrices(a.array, x.reshape(*kept, prod(m)), terms[0]),
        Matrices(b.array, terms[1], y.reshape(*kept, prod(n))),
    )
    if products is None:
        return None
    order = np.argsort([*shared, *rows, *columns])
    wanted = (*(shape[d] for d in outer), *(1,) * reduced)
    return products.reshape((*kept, *m, *n)).transpose(order).reshape(wanted)


def _separated(factor: LocatedFactor, rank: int, outer: int) -> tuple[LocatedFactor, Array, Array]:
    """A factor, and its places as a sum of two parts; one of which they are no such sum, such as a
    triangle, has its elements next to each other first.
    """
    parts = factor.separated(rank, outer)
    if parts is not None:
        return factor, *parts
    listed = factor.together()
    first = listed.separated(rank, outer)
    assert first is not None
    return listed, *first


def _whole_index(pair: tuple[ir.Expr, ...], extent: tuple[int, ...]) -> ir.Expr | None:
    """x, where a pair of indices is `x // n` and `x % n` of rows of this extent n."""
    match pair:
        case (ir.Binary(op="floordiv", a=x, b=ir.Const(value=n)), ir.Binary(op="mod", a=y, b=ir.Const(value=m))):
            return x if x == y and (n,) == (m,) == extent else None
    return None


def _number(value: Symbols, where: str) -> Any:  # noqa: ANN401  an array of integers
    if not known(value).all():
        raise CertificateError(f"certify: block {where}: an index must not depend on inputs, got one that does")
    return value["low"]


def _in_order(places: Sequence[Array], extents: Sequence[int]) -> bool:
    """Whether indices go through an array of these extents as its elements lie."""
    axes = [axis - place.ndim for place in places for axis, count in enumerate(place.shape) if count > 1]
    if axes != sorted({*axes}):
        return False
    return all(np.array_equal(place.ravel(), np.arange(extent)) for place, extent in zip(places, extents, strict=True))


def evaluate(
    fn: ir.Function, arrays: Mapping[str, Symbols | Array], sums: SumBounds | None = None
) -> dict[str, Symbols]:
    """The outputs of a function of integers on symbols, both by parameter name. Arrays of integers
    are numbers.

    The bounds of its reductions, before they wrap, are included in `sums`.

    Raises:
        InterpretError: an access out of bounds or of an element that is not written.
        CertificateError: a type without symbols, or an index that depends on inputs.
    """
    spend_function(fn)
    memory = SymbolicMemory(fn.buffers, Indices(function_ranges(fn, axes=True)))
    memory.sums = SumBounds() if sums is None else sums
    for name, array in arrays.items():
        memory.fill(name, np.ascontiguousarray(array))
    with np.errstate(all="ignore"):
        SymbolicClosures(memory).statement(fn.body)({})
    return {name: memory.arrays[name] for name in ir.output_names(fn)}
