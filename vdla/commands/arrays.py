# SPDX-License-Identifier: Apache-2.0
"""The arrays of a program: read from .npy files, random, or written to .npy files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.commands import CommandError
from vdla.commands.files import make_folder
from vdla.commands.machine_options import key_and_value
from vdla.support.atomic import write_with
from vdla.support.file_kind import described

if TYPE_CHECKING:
    from vdla.hardware.program import Program, ProgramTensor

Array = NDArray[Any]

_NPY_MAGIC = b"\x93NUMPY"
_RANDOM_SHIFT = 31  # with multipliers near 2**23: sums of some thousand products come out within int8


def read_inputs(settings: Sequence[str]) -> dict[str, Array]:
    """The arrays of NAME=FILE.npy words."""
    arrays: dict[str, Array] = {}
    for setting in settings:
        name, file = key_and_value("--input", setting)
        if name in arrays:
            raise CommandError(f"--input: {name} must be given once, got it twice")
        arrays[name] = read_array(Path(file))
    return arrays


def read_array(path: Path) -> Array:
    """The array in a .npy file; pickled objects are refused."""
    with path.open("rb") as file:
        start = file.read(len(_NPY_MAGIC))
        if start != _NPY_MAGIC:
            raise CommandError(f"{path}: file must be an array in .npy format, got {described(path, start, ('.npy',))}")
        file.seek(0)
        try:
            return np.asarray(np.load(file, allow_pickle=False))
        except (ValueError, EOFError) as error:
            raise CommandError(f"{path}: content must be an array in .npy format, got {error}") from None


def with_random(program: Program, arrays: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The arrays, completed by random ones that depend on the seed and the tensor's name."""
    from vdla.hardware.program import input_tensors

    missing = [tensor for tensor in input_tensors(program) if tensor.name not in arrays]
    return {**arrays, **{tensor.name: random_array(tensor, seed) for tensor in missing}}


def random_array(tensor: ProgramTensor, seed: int) -> Array:
    """Elements over their whole range; requantisation parameters for results within theirs."""
    from vdla.hardware.numerics import pack_scale

    rng = np.random.default_rng([seed, *tensor.name.encode()])
    if tensor.dtype == "int64":
        bias, mult = rng.integers(-1000, 1000, tensor.shape), rng.integers(1 << 22, 1 << 23, tensor.shape)
        return pack_scale(bias, mult, _RANDOM_SHIFT).view(np.int64)
    bits = int(tensor.dtype.removeprefix("int"))
    dtype = np.int8 if bits <= 8 else np.dtype(tensor.dtype)
    return rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), tensor.shape, dtype)


def require_all(program: Program, arrays: Mapping[str, Array]) -> None:
    """Refuse to run with a tensor that has no array."""
    from vdla.hardware.program import input_tensors

    missing = [tensor for tensor in input_tensors(program) if tensor.name not in arrays]
    if missing:
        wanted = ", ".join(f"{tensor.name} ({tensor.dtype} {list(tensor.shape)})" for tensor in missing)
        how = "--input NAME=FILE.npy, --random-inputs SEED or --timing-only"
        raise CommandError(f"run: every input must have an array, got none for {wanted}; give {how}")


def write_outputs(folder: Path, outputs: Mapping[str, Array]) -> list[Path]:
    """Write one .npy file an output, atomically; their paths."""
    make_folder(folder)
    paths = {folder / f"{name.replace('/', '_')}.npy": array for name, array in outputs.items()}
    for path, array in paths.items():
        write_with(path, _saver(array))
    return list(paths)


def _saver(array: Array) -> Any:  # noqa: ANN401  what numpy.save returns is of no interest
    return lambda temporary: np.save(temporary, array, allow_pickle=False)


# --- outputs --------------------------------------------------------------------------------------


OUTPUT_COLUMNS = ("name", "type", "shape", "min", "max", "sha256")


def output_rows(outputs: Mapping[str, Array]) -> list[tuple[str, ...]]:
    """Type, shape, limits and checksum of each output."""
    return [_row(name, array) for name, array in outputs.items()]


def _row(name: str, array: Array) -> tuple[str, ...]:
    ordered = array.size and array.dtype.kind in "biuf"
    limits = (_short(array.min()), _short(array.max())) if ordered else ("", "")
    return (name, str(array.dtype), "x".join(map(str, array.shape)), *limits, digest(array)[:12])


def _short(value: Any) -> str:  # noqa: ANN401  a scalar of NumPy
    return f"{value:.6g}" if isinstance(value, np.floating) else str(value)


def digest(array: Array) -> str:
    """The SHA-256 of the elements, in hexadecimal."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def outputs_document(outputs: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
    """The outputs as JSON-compatible values."""
    return {
        name: {"dtype": str(array.dtype), "shape": list(array.shape), "sha256": digest(array)}
        for name, array in outputs.items()
    }
