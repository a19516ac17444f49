# SPDX-License-Identifier: Apache-2.0
"""The buffers of a loop nest on symbols, of integers and of floats; threads must not race."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.certificates import field
from vdla.compiler.certificates.access_notes import AccessNotes, RaceError
from vdla.compiler.certificates.evaluate import SymbolicMemory
from vdla.compiler.certificates.float_operations import (
    float_binary,
    float_called,
    float_cast,
    float_combined_along,
    float_products,
    float_select,
)
from vdla.compiler.certificates.float_symbols import INFINITE, float_numbers
from vdla.compiler.certificates.products import LocatedFactor, Matrices, located
from vdla.compiler.certificates.symbols import (
    SYMBOL,
    CertificateError,
    Symbols,
    chosen,
    elements_of,
    key,
    known,
    settled,
    symbols,
    type_bounds,
    unstructured,
)
from vdla.compiler.interpret.memory import InterpretError, Mask, Points
from vdla.compiler.ir import Array, is_float, limits, storage_dtype


class NestMemory(SymbolicMemory):
    """Buffers of symbols of every type. While `thread` names a variable, its values are threads
    that run at once, and `notes` has who accessed what.
    """

    thread: str = ""
    warp: int = 1

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401  as the interpreter's
        super().__init__(*args, **options)
        self.notes: dict[str, AccessNotes] = {}
        self._sharing: dict[str, tuple[str, ...]] = {}

    def share(self, slots: tuple[tuple[str, ...], ...]) -> None:
        """Let the buffers of each slot share memory: a write to one is lost by the others."""
        for slot in slots:
            self._sharing.update({name: tuple(other for other in slot if other != name) for name in slot})

    def forget(self, buffers: Iterable[str]) -> None:
        """Forget who accessed new buffers."""
        for name in buffers:
            self.notes.pop(name, None)

    # --- threads

    def start(self, thread: str) -> None:
        """Let threads run at once, by the name of the variable that numbers them."""
        self.thread = thread
        self.notes.clear()

    def stop(self) -> None:
        """Go on with one thread."""
        self.start("")

    def accesses(self, name: str) -> list[tuple[AccessNotes, str]]:
        """The notes of a buffer, each with the variable that numbers who accesses it."""
        if name not in self.notes:
            self.notes[name] = AccessNotes(self.buffers[name].dims, self.warp)
        return [(self.notes[name], self.thread)]

    def note(self, action: str, name: str, places: Sequence[Array], at: Points) -> None:
        """Note accesses at active points, `action` "read", "write" or "update".

        Raises:
            InterpretError: threads race.
        """
        for notes, variable in self.accesses(name):
            threads = np.asarray(at.values[variable], np.int64)
            shape = np.broadcast_shapes(at.mask.shape, threads.shape, *(np.shape(place) for place in places))
            active = np.broadcast_to(at.mask, shape)
            there = tuple(np.broadcast_to(place, shape)[active] for place in places)
            self._noted(notes, action, name, there, np.broadcast_to(threads, shape)[active], at.where)

    @staticmethod
    def _noted(
        notes: AccessNotes, action: str, name: str, places: tuple[Array, ...], threads: Array, where: str
    ) -> None:
        try:
            getattr(notes, action)(places, threads)
        except RaceError as error:
            rule = "iterations that run at once must not access one element, to write it"
            raise InterpretError(f"block {where}: {rule}, got {name}[{error}]") from None

    def store(self, name: str, places: list[Array], value: Array, at: Points) -> None:
        """Writes `value` at every active point."""
        super().store(name, places, value, at)
        for other in self._sharing.get(name, ()):
            self.written[other][...] = False
        if self.thread:
            self.note("write", name, places, at)

    def _load(self, name: str, places: tuple[Array, ...], at: Points) -> Array:
        loaded = super()._load(name, places, at)
        if self.thread and name not in self.given:
            self.note("read", name, places, at)
        return loaded

    # --- indices that depend on inputs

    def _gathered(self, buffer: str, indices: tuple[ir.Expr, ...], at: Points) -> Symbols:
        """Elements at indices of which some are unknown: functions of these and of all elements
        that they may choose from.
        """
        places = [settled(self.value(index, at), self._dtype(index)) for index in indices]
        unknown = [~known(place) & at.mask for place in places]
        if not any(mask.any() for mask in unknown):
            return self._load(buffer, tuple(np.asarray(place["low"]) for place in places), at)
        shape = np.broadcast_shapes(at.mask.shape, *(place.shape for place in places))
        places = [np.broadcast_to(place, shape) for place in places]
        for place, extent in zip(places, self.buffers[buffer].dims, strict=True):
            if (np.broadcast_to(at.mask, shape) & ((place["low"] < 0) | (place["high"] >= extent))).any():
                rule = f"an index that depends on inputs must be inside the shape {list(self.buffers[buffer].dims)}"
                raise CertificateError(f"certify: block {at.where}: {rule} for all inputs, got one of {buffer}")
        self._note_reads_of_all(buffer, at)
        made = np.empty(shape, SYMBOL)
        patterns = np.stack([np.broadcast_to(mask, shape) for mask in unknown])
        for pattern in product((False, True), repeat=len(places)):
            here = (patterns == np.reshape(pattern, (-1, *(1,) * len(shape)))).all(axis=0)
            if here.any():
                made[here] = self._chosen_from(buffer, [place[here] for place in places], pattern)
        return made

    def _chosen_from(self, buffer: str, places: list[Symbols], unknown: tuple[bool, ...]) -> Symbols:
        """Elements of a buffer at `[points]` places, unknown along the same dimensions."""
        along = tuple(d for d, one in enumerate(unknown) if one)
        at = tuple(np.asarray(place["low"]) for place, one in zip(places, unknown, strict=True) if not one)
        array, written = self.arrays[buffer], self.written[buffer]
        if not along:
            return np.asarray(array[at])
        positions = np.indices(array.shape)[list(along)].astype(np.uint64)
        marked = field.hashed(key("element to choose"), *positions, elements_of(array)["value"])
        choices = field.total(np.where(written, marked, np.uint64(0)), along)
        content = choices.reshape([n for d, n in enumerate(array.shape) if d not in along])[at]
        dtype = self.buffers[buffer].dtype
        bounds = (-INFINITE, INFINITE) if is_float(dtype) else type_bounds(dtype)
        asked = [elements_of(places[d]) for d in along]
        return unstructured(("choice", along), *bounds, symbols(content, 0, 1), *asked)

    def _note_reads_of_all(self, buffer: str, at: Points) -> None:
        if not self.thread or buffer in self.given:
            return
        places = tuple(np.indices(self.buffers[buffer].dims).reshape(len(self.buffers[buffer].dims), -1))
        for notes, variable in self.accesses(buffer):
            for thread in np.unique(np.asarray(at.values[variable])):
                self._noted(notes, "read", buffer, places, np.full(places[0].shape, thread), at.where)

    # --- floats

    def _evaluated(self, expr: ir.Expr, at: Points) -> Symbols:
        match expr:
            case ir.Load(buffer=buffer, indices=indices) if any(map(ir.reads_memory, indices)):
                return self._gathered(buffer, indices, at)
            case ir.Const(value=value, dtype=dtype) if is_float(dtype):
                return float_numbers(np.asarray(value, storage_dtype(dtype)))
            case ir.Binary(op=op, a=a, b=b) if is_float(self._dtype(a)):
                return float_binary(op, self.value(a, at), self.value(b, at), self._dtype(a))
            case ir.Cast(dtype=dtype, value=inner) if is_float(dtype) or is_float(self._dtype(inner)):
                return float_cast(self.value(inner, at), self._dtype(inner), dtype)
            case ir.Select(cond=cond, a=a, b=b) if is_float(self._dtype(a)):
                return self._chosen_float(cond, a, b, at)
            case ir.Call(name=name, args=args, dtype=dtype):
                dtypes = [self._dtype(a) for a in args]
                if is_float(dtype) or any(map(is_float, dtypes)):
                    return float_called(name, [self.value(a, at) for a in args], dtypes, dtype)
        return super()._evaluated(expr, at)

    def _chosen_float(self, condition: ir.Expr, a: ir.Expr, b: ir.Expr, at: Points) -> Symbols:
        cond = self.value(condition, at)
        if not known(cond).all():
            return float_select(cond, self.value(a, at), self.value(b, at))
        holds = np.asarray(cond["low"] == 1)
        then, otherwise = at.only(holds), at.only(~holds)
        if not otherwise.mask.any():
            return self.value(a, at)
        if not then.mask.any():
            return self.value(b, at)
        return chosen(holds, self.value(a, then), self.value(b, otherwise))

    def _compared(self, condition: ir.Expr, at: Points) -> tuple[Symbols, tuple[str, Symbols, Symbols] | None]:
        if isinstance(condition, ir.Binary) and is_float(self._dtype(condition.a)):
            return self.value(condition, at), None
        return super()._compared(condition, at)

    @staticmethod
    def products(a: Matrices, b: Matrices, dtype: str) -> Symbols | None:
        """`[..., M, K]` and `[..., K, N]` multiplied, or None."""
        if not is_float(dtype):
            return SymbolicMemory.products(a, b, dtype)
        x, y = a.symbols, b.symbols
        return None if (known(x).any() and known(y).any()) else float_products(x, y, dtype)

    def _located(self, factor: ir.Expr, at: Points) -> LocatedFactor:
        """The elements of a factor as they are read, since reads are noted."""
        return located(self.value(factor, at))

    def reduced(self, op: str, terms: Symbols, mask: Mask, along: tuple[int, ...], dtype: str) -> Symbols:
        """Terms where `mask` holds, combined over the dimensions `along`."""
        if not is_float(dtype):
            return super().reduced(op, terms, mask, along, dtype)
        if not mask.all():
            identity = 0.0 if op == "add" else limits(dtype)[op == "min"]
            terms = chosen(mask, terms, float_numbers(identity))
        return float_combined_along(op, terms, along, dtype)

    def combined(self, op: str, old: Symbols, total: Symbols, dtype: str) -> Symbols:
        """An element and a combination of terms, combined."""
        return float_binary(op, old, total, dtype) if is_float(dtype) else super().combined(op, old, total, dtype)
