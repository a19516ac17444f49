# SPDX-License-Identifier: Apache-2.0
"""A compiled program: the instruction stream, its tensors, the source line of each instruction.

The invariant: arrays have one row per instruction and indices are in range. Whether the
instructions are valid and safe is the verifier's question. Arrays are read-only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config, ConfigError
from vdla.hardware.extensions import MissingExtensionError, extension_files
from vdla.hardware.isa import COL, Opcode, Words, columns, instruction_bytes, with_fields
from vdla.hardware.program.certificate import ProgramCertificate
from vdla.hardware.program.placement import BEATS, first_beats
from vdla.hardware.program.tensor import UOP, NeedsExtensionError, ProgramError, ProgramTensor
from vdla.support.arrays import Array, Ints
from vdla.support.html_repr import shown_by
from vdla.support.sealed_file import FileFormat, Payload

UOPS = "uops"
"""The name of the constant that holds the micro-op table."""
PROGRAM_FILE = FileFormat(
    magic=b"VDLAPROG", version=1, noun="program", made_by="vdla compile C6 -o c6.vdla", error=ProgramError
)


def _frozen_array(where: str, name: str, array: Array, dtype: type, shape: tuple[int, ...]) -> Array:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
        got = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else repr(array)
        raise ProgramError(f"{where}: {name} must be {np.dtype(dtype).name}{list(shape)}, got {got}")
    view = array.view()
    view.flags.writeable = False
    return view


def _check_indices(where: str, name: str, array: Array, count: int) -> None:
    bad = np.flatnonzero((array < -1) | (array >= count))
    if len(bad):
        raise ProgramError(f"{where}: {name}[{bad[0]}] must be an integer from -1 to {count - 1}, got {array[bad[0]]}")


_NUMBERS = ("imm", "zero_point", "clip_lo", "clip_hi", "pad_value")
"""The fields of instructions on which results depend, but no access, token or time."""


@dataclass(frozen=True, eq=False)
class Program:
    """`words` uint8[n, bytes]; `tensor_of` and `source_of`, int32[n], index `tensors` and
    `source_lines`.

    An index of -1 stands for no tensor or no line. `certificate` says what it was proven to
    compute, if its file is to say so.
    """

    config: Config
    name: str
    words: Words
    tensors: tuple[ProgramTensor, ...]
    tensor_of: NDArray[np.int32]
    source_lines: tuple[str, ...]
    source_of: NDArray[np.int32]
    certificate: ProgramCertificate | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isprintable() or not self.name:
            raise ProgramError(f"program: name must be a printable string, got {self.name!r}")
        where = f"program {self.name}"
        if not isinstance(self.config, Config):
            raise ProgramError(f"{where}: config must be a Config, got {self.config!r}")
        n = len(self.words) if isinstance(self.words, np.ndarray) and self.words.ndim else 0
        for name, dtype, shape in (
            ("words", np.uint8, (n, instruction_bytes(self.config))),
            ("tensor_of", np.int32, (n,)),
            ("source_of", np.int32, (n,)),
        ):
            object.__setattr__(self, name, _frozen_array(where, name, getattr(self, name), dtype, shape))
        for name, kind in (("tensors", ProgramTensor), ("source_lines", str)):
            members = getattr(self, name)
            if not isinstance(members, tuple) or not all(isinstance(member, kind) for member in members):
                raise ProgramError(f"{where}: {name} must be a tuple of {kind.__name__}, got {members!r}")
        _check_indices(where, "tensor_of", self.tensor_of, len(self.tensors))
        _check_indices(where, "source_of", self.source_of, len(self.source_lines))
        self._check_tensors(where)
        self._check_relocations(where)

    def _check_relocations(self, where: str) -> None:
        opcode = self.words[:, 0] & 7  # the opcode is the low three bits of every format
        for row in np.flatnonzero((self.tensor_of >= 0) & ~np.isin(opcode, (Opcode.LOAD, Opcode.STORE)))[:1]:
            raise ProgramError(
                f"{where}: tensor_of[{row}] must be -1 for all but LOAD and STORE, got {self.tensor_of[row]}"
            )

    def _check_tensors(self, where: str) -> None:
        seen: set[str] = set()
        for tensor in self.tensors:
            if tensor.name in seen:
                raise ProgramError(f"{where}: names of tensors must differ, got {tensor.name} twice")
            seen.add(tensor.name)
            if tensor.dtype == UOP:
                tensor.check_size(8 * self.config.uop_entry_bytes)
            if tensor.role == "part":
                self._check_part(where, tensor)
        for line in self.source_lines:
            if "\n" in line or "\r" in line:
                raise ProgramError(f"{where}: a source line must be one line of text, got {line!r}")

    def _check_part(self, where: str, part: ProgramTensor) -> None:
        """ProgramError unless a part can lie in its whole."""
        whole = next((tensor for tensor in self.tensors if tensor.name == part.whole), None)
        if whole is None or whole.role != "resident":
            got = f"{part.whole}, {'no tensor' if whole is None else whole.role}"
            raise ProgramError(f"{where}: whole of {part.name} must be a resident tensor, got {got}")
        if part.dtype != whole.dtype:
            raise ProgramError(f"{where}: {part.name} must have the {whole.dtype} of {whole.name}, got {part.dtype}")
        if part.nbytes > whole.nbytes:
            rule = f"{part.name} must have at most the {whole.nbytes} bytes of {whole.name}"
            raise ProgramError(f"{where}: {rule}, got {part.nbytes}")

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"<Program {self.name} for {self.config.name}: {len(self)} instructions, hash {self.hash}>"

    _repr_html_ = shown_by("programs", "program_html")

    def tensor(self, name: str) -> ProgramTensor:
        """The tensor called `name`."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        choices = ", ".join(tensor.name for tensor in self.tensors)
        raise ProgramError(f"program {self.name}: tensor must be one of {choices}, got {name}")

    @cached_property
    def columns(self) -> Ints:
        """The fields of the words before linking, as `isa.columns` gives them."""
        table = columns(self.config, self.words)
        table.flags.writeable = False
        return table

    def whole_of(self, tensor: int) -> int:
        """The index of the tensor that the one at an index is a part of; its own, if of none."""
        name = self.tensors[tensor].whole
        return tensor if not name else next(k for k, other in enumerate(self.tensors) if other.name == name)

    @property
    def hash(self) -> str:
        """The first sixteen digits of `digest`."""
        return self.digest[:16]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over fingerprint, words and tensors, not names and source lines."""
        digest = hashlib.sha256()
        digest.update(self.config.fingerprint.encode())
        digest.update(np.ascontiguousarray(self.words).tobytes())
        digest.update(self.tensor_of.astype("<i4").tobytes())
        for tensor in self.tensors:
            described = [tensor.name, tensor.role, list(tensor.shape), tensor.dtype, tensor.layout, tensor.nbytes]
            described += [tensor.whole] if tensor.whole else []
            digest.update(json.dumps(described).encode())
            digest.update(hashlib.sha256(tensor.data or b"").digest())
        return digest.hexdigest()

    @cached_property
    def structure(self) -> str:
        """SHA-256 over what decides whether the program is safe and, on one machine, how long it
        takes: all of `digest` but the names of tensors and the numbers that words compute with.

        Networks repeat blocks whose programs differ in these only. On a machine with extensions it
        is `digest`: their fields can be anything.
        """
        if self.config.extensions:
            return self.digest
        zeros = np.zeros(len(self), np.int64)
        digest = hashlib.sha256(self.config.fingerprint.encode())
        digest.update(with_fields(self.config, self.words, dict.fromkeys(_NUMBERS, zeros)).tobytes())
        digest.update(self.tensor_of.astype("<i4").tobytes())
        for index, tensor in enumerate(self.tensors):
            whole = [self.whole_of(index)] if tensor.whole else []
            digest.update(json.dumps([tensor.role, tensor.nbytes, tensor.dtype, *whole]).encode())
            digest.update(hashlib.sha256(tensor.data or b"").digest())
        return digest.hexdigest()

    def link(self, addresses: Mapping[str, int]) -> Words:
        """The words with absolute `dram` fields, for tensors at these byte addresses.

        ProgramError where tensors, or a tensor and the stream, overlap, where a part leaves its
        whole, or where a tensor has no address or one that the machine cannot reach.
        """
        return with_fields(self.config, self.words, {"dram": self._absolute(addresses)})

    def linked_columns(self, addresses: Mapping[str, int]) -> Ints:
        """The columns with absolute `dram` fields: those of `link`."""
        table = self.columns.copy()
        table[:, COL["dram"]] = self._absolute(addresses)
        return table

    def _absolute(self, addresses: Mapping[str, int]) -> Ints:
        """The absolute `dram` field of each instruction."""
        beats = np.append(first_beats(self, addresses), 0)
        table = self.columns
        is_dma = np.isin(table[:, COL["opcode"]], (Opcode.LOAD, Opcode.STORE))
        has_data = (table[:, COL["y_size"]] > 0) & (table[:, COL["x_size"]] > 0)
        moved = np.where(is_dma & has_data, beats[self.tensor_of], 0) + table[:, COL["dram"]]
        for row in np.flatnonzero(moved >= BEATS)[:1]:
            raise ProgramError(
                f"program {self.name}: instruction {row} must address a beat below {BEATS}, got {moved[row]}"
            )
        return moved

    # --- files

    def to_bytes(self) -> bytes:
        """The content of the program's file; equal programs give equal bytes."""
        members = [np.ascontiguousarray(self.words).tobytes()]
        members += [array.astype("<i4").tobytes() for array in (self.tensor_of, self.source_of)]
        members += [tensor.data for tensor in self.tensors if tensor.data is not None]
        return PROGRAM_FILE.seal(_manifest(self), members)

    @staticmethod
    def from_bytes(content: bytes, where: str) -> Program:
        """The program in the content of a file; `where` names the file in errors."""
        manifest, payload = PROGRAM_FILE.unseal(content, where)
        described: Any = None
        try:
            described = json.loads(manifest)
            return _build(described, payload)
        except MissingExtensionError as error:
            raise NeedsExtensionError(where, error.text(_file_names(described.get(_FILES)))) from None
        except (ProgramError, ConfigError) as error:
            raise ProgramError(f"{where}: content must be a valid program, got {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            got = f"{type(error).__name__}: {error}"
            raise ProgramError(f"{where}: manifest must describe a program, got {got}") from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the program to a file, whole or not at all."""
        PROGRAM_FILE.write(path, self.to_bytes())

    @staticmethod
    def load(path: str | PathLike[str]) -> Program:
        """The program in a file that `save` wrote."""
        return Program.from_bytes(PROGRAM_FILE.read(path), str(path))


# --- the content of a file -----------------------------------------------------------------------

_FILES = "extension_files"
_FILE_NAME = re.compile(r"[\w.\-]{1,100}\.py")
_STORED = ("name", "role", "dtype", "layout", "nbytes")


def _manifest(program: Program) -> bytes:
    manifest = {
        "name": program.name,
        "config": program.config.to_dict(),
        "instructions": len(program),
        "tensors": [_described(tensor) for tensor in program.tensors],
        "source_lines": list(program.source_lines),
    }
    if files := extension_files(program.config):
        manifest[_FILES] = files
    if program.certificate is not None:
        manifest["certificate"] = program.certificate.to_json()
    return json.dumps(manifest, indent=1, sort_keys=True).encode()


def _file_names(raw: object) -> dict[str, str]:
    """The names of files by extension in a manifest, of those that are names."""
    named = raw.items() if isinstance(raw, dict) else ()
    return {key: value for key, value in named if isinstance(value, str) and _FILE_NAME.fullmatch(value)}


def _described(tensor: ProgramTensor) -> dict[str, Any]:
    fields = {name: getattr(tensor, name) for name in _STORED}
    fields |= {"whole": tensor.whole} if tensor.whole else {}
    return {**fields, "shape": list(tensor.shape), "has_data": tensor.data is not None}


def _build(manifest: dict[str, Any], payload: Payload) -> Program:
    config = Config.from_dict(manifest["config"])
    count, width = manifest["instructions"], instruction_bytes(config)
    words = np.frombuffer(payload.take("words", count * width), np.uint8).reshape(count, width)
    tensor_of = np.frombuffer(payload.take("tensor_of", 4 * count), "<i4").astype(np.int32)
    source_of = np.frombuffer(payload.take("source_of", 4 * count), "<i4").astype(np.int32)
    tensors = tuple(_tensors(manifest["tensors"], payload))
    payload.finish()
    claimed = manifest.get("certificate")
    return Program(
        config=config,
        name=manifest["name"],
        words=words,
        tensors=tensors,
        tensor_of=tensor_of,
        source_lines=tuple(manifest["source_lines"]),
        source_of=source_of,
        certificate=None if claimed is None else ProgramCertificate.from_json(claimed),
    )


def _tensors(described: list[dict[str, Any]], payload: Payload) -> Iterator[ProgramTensor]:
    for entry in described:
        fields = {name: entry[name] for name in _STORED}
        data = bytes(payload.take(f"tensor {fields['name']}", fields["nbytes"])) if entry["has_data"] else None
        yield ProgramTensor(**fields, shape=tuple(entry["shape"]), data=data, whole=entry.get("whole", ""))


def load(path: str | PathLike[str]) -> Program:
    """`Program.load(path)`."""
    return Program.load(path)
