# SPDX-License-Identifier: Apache-2.0
"""Elements of few bits that lie side by side in an element of a buffer, the first one lowest.

The element of the buffer is a function without structure of its parts; what an instruction sees of
it are the parts again. Those of numbers are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.certificates.symbols import (
    CertificateError,
    Symbols,
    chosen,
    elements_of,
    known,
    numbers,
    type_bounds,
    unstructured,
)


@dataclass
class PackedElements:
    """Elements that were packed, and their parts."""

    _packed: list[Symbols] = field(default_factory=list)
    _parts: list[Symbols] = field(default_factory=list)

    def pack(self, elements: Symbols, bits: int, wide: int) -> Symbols:
        """Flat elements of so many bits as elements of `wide` bits."""
        count = wide // bits
        if len(elements) % count:
            raise CertificateError(f"certify: elements of {bits} bits must fill those of {wide}, got {len(elements)}")
        parts = elements_of(elements).reshape(-1, count)
        columns = [parts[:, place] for place in range(count)]
        made = unstructured(("packed", bits), *type_bounds(f"int{wide}"), *columns)
        every = known(parts).all(axis=1)
        low = sum((parts["low"][:, place] & ((1 << bits) - 1)) << (bits * place) for place in range(count))
        half = 1 << (wide - 1)
        made = chosen(every, numbers((low + half) % (2 * half) - half), made)
        self._packed.append(made)
        self._parts.append(parts)
        return made

    def parts(self, packed: Symbols, bits: int, wide: int) -> Symbols:
        """The parts of elements `[steps, n]`, one after the other."""
        count, half = wide // bits, 1 << (bits - 1)
        shifts = np.arange(count) * bits
        exact = numbers((((packed["low"][..., None] >> shifts) + half) & (2 * half - 1)) - half)
        if known(packed).all():
            return exact.reshape(len(packed), -1)
        names, parts = (np.concatenate(one) if one else packed[:0].reshape(-1) for one in (self._packed, self._parts))
        order = np.argsort(names["value"], kind="stable")
        places = np.searchsorted(names["value"][order], packed["value"]).clip(0, max(0, len(order) - 1))
        if not len(order) or (~known(packed) & (names["value"][order][places] != packed["value"])).any():
            rule = f"operands of {bits} bits must be elements of a tensor of {bits} bits"
            raise CertificateError(f"certify: {rule}, got others")
        whole = chosen(known(packed)[..., None], exact, parts[order][places])
        return np.ascontiguousarray(whole).reshape(len(packed), -1)
