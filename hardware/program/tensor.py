# SPDX-License-Identifier: Apache-2.0
"""The description of a program's tensor in DRAM.

The invariant: a device can hold and run every `ProgramTensor` that exists. Its dtype is one that
the machine reads or writes, and shape and dtype account for exactly `nbytes` bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from vdla.support.errors import Error
from vdla.support.integers import fields_to_python, is_int, to_python


class ProgramError(Error, ValueError):
    """An inconsistent program, or a file that holds no valid program."""


class NeedsExtensionError(ProgramError):
    """A program for a machine with an extension that is not loaded; `text` says which."""

    def __init__(self, where: str, text: str) -> None:
        self.text = text
        super().__init__(f"{where}: {text}")


ROLES = ("input", "weight", "constant", "output", "scratch", "resident", "part")
"""A resident tensor keeps its bytes from run to run; a part is a window of one, at an offset that
is chosen for each run.
"""
ROLES_WITH_DATA = ("weight", "constant", "resident")
WRITABLE_ROLES = ("output", "scratch", "resident", "part")
"""The roles of tensors that STORE may write."""
MAX_BYTES = 1 << 37

ELEMENT_BITS = {"int2": 2, "int4": 4, "int8": 8, "int32": 32, "int64": 64}
"""Bits of an element by dtype: activations and weights, sums, packed requantisation parameters."""

UOP = "uop"
"""The dtype of a constant of micro-ops, whose size follows from the configuration."""

CONSTANT_BITS = {**ELEMENT_BITS, "uint8": 8}
"""As `ELEMENT_BITS`, for constants: the machine's tables may also be declared as bytes."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/\-]*")


@dataclass(frozen=True, slots=True)
class ProgramTensor:
    """An array in DRAM; shape and layout are those of its packed elements.

    `data` of a resident tensor is what it begins with, zeros without. `whole` names the resident
    tensor that a part lies in; the bytes of a part include those that its STOREs stride over.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    layout: str
    nbytes: int
    data: bytes | None = None
    whole: str = ""

    def __post_init__(self) -> None:
        fields_to_python(self)
        where = f"tensor {self.name}"
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ProgramError(f"tensor: name must be a letter, then letters, digits, _ . : / -, got {self.name!r}")
        if self.role not in ROLES:
            raise ProgramError(f"{where}: role must be one of {', '.join(ROLES)}, got {self.role}")
        if not isinstance(self.shape, tuple) or not all(is_int(n) and n >= 1 for n in self.shape):
            raise ProgramError(f"{where}: shape must be of integers from 1, got {self.shape}")
        object.__setattr__(self, "shape", tuple(map(to_python, self.shape)))
        if not isinstance(self.layout, str) or not self.layout.isprintable():
            raise ProgramError(f"{where}: layout must be a printable string, got {self.layout!r}")
        self._check_dtype(where)
        if not is_int(self.nbytes) or not 1 <= self.nbytes <= MAX_BYTES:
            raise ProgramError(f"{where}: nbytes must be an integer from 1 to {MAX_BYTES}, got {self.nbytes!r}")
        if self.dtype in CONSTANT_BITS:  # `Program` checks micro-ops, whose size is the configuration's
            self.check_size(CONSTANT_BITS[self.dtype])
        self._check_data(where)
        if not isinstance(self.whole, str) or bool(self.whole) != (self.role == "part"):
            rule = "name a resident tensor" if self.role == "part" else f"be empty for role {self.role}"
            raise ProgramError(f"{where}: whole must {rule}, got {self.whole!r}")

    def _check_dtype(self, where: str) -> None:
        bits = CONSTANT_BITS if self.role == "constant" else ELEMENT_BITS
        if self.dtype == UOP and self.role == "constant":
            return
        if not isinstance(self.dtype, str) or self.dtype not in bits:
            choices = ", ".join((*bits, UOP) if self.role == "constant" else bits)
            raise ProgramError(f"{where}: dtype must be one of {choices}, got {self.dtype!r}")

    def check_size(self, element_bits: int) -> None:
        """ProgramError unless the elements of the shape fill `nbytes`."""
        nbytes, bits_left = divmod(prod(self.shape) * element_bits, 8)
        declared = f"{self.dtype}{list(self.shape)}"
        if bits_left:
            raise ProgramError(f"tensor {self.name}: {declared} must fill whole bytes, got {bits_left} bits more")
        if nbytes != self.nbytes:
            raise ProgramError(f"tensor {self.name}: nbytes must be {nbytes} for {declared}, got {self.nbytes}")

    def _check_data(self, where: str) -> None:
        if not isinstance(self.data, bytes | None):
            raise ProgramError(f"{where}: data must be bytes, got {type(self.data).__name__}")
        if self.data is None and self.role == "constant":
            raise ProgramError(f"{where}: a constant must have data, got none")
        if self.data is not None and self.role not in ROLES_WITH_DATA:
            raise ProgramError(f"{where}: data must be none for role {self.role}, got {len(self.data)} bytes")
        if self.data is not None and len(self.data) != self.nbytes:
            raise ProgramError(f"{where}: data must be nbytes={self.nbytes} long, got {len(self.data)}")
