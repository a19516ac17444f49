# SPDX-License-Identifier: Apache-2.0
"""A file of exported models: each with who wrote it, seeded inputs and reference outputs.

Each script of `tests/zoo` writes one archive, in an environment of its exporter, for which this
module needs NumPy only. An archive is a zip: NAME.onnx, NAME.npz with the reference outputs in
order, and index.json. Inputs are drawn anew from a seed, so that they take no space.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnxruntime import InferenceSession

Array = npt.NDArray[Any]

MOST_BYTES = 100_000
"""Of one model."""
_MOST_TEXT = 160
"""Characters of an error in a report."""


@dataclass(frozen=True)
class Input:
    """An input of a model: how its values are drawn."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    high: int = 0
    """Integers are in 0..high - 1; floats are normal."""

    def draw(self, seed: int) -> Array:
        """Values of a seed."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        if self.dtype == "bool":
            return np.asarray(rng.integers(0, 2, self.shape), bool)
        if np.dtype(self.dtype).kind in "iu":
            return np.asarray(rng.integers(0, self.high or 100, self.shape), self.dtype)
        return np.asarray(rng.standard_normal(self.shape), self.dtype)


@dataclass(frozen=True)
class Entry:
    """A model of an archive; `kind` is network or table."""

    name: str
    kind: str
    exporter: str
    opset: int
    inputs: tuple[Input, ...]
    tolerance: float = 1e-4
    """Of outputs, over the greatest reference value."""

    def draw(self, seed: int = 0) -> dict[str, Array]:
        """Inputs by name."""
        return {item.name: item.draw(seed) for item in self.inputs}


class Writer:
    """Collects models, then writes the archive at once; `failures` tells of those not exported."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.files: dict[str, bytes] = {}
        self.entries: list[Entry] = []
        self.failures: list[str] = []

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """The export of a model; its error becomes a failure, and the next model follows."""
        try:
            yield
        except Exception as error:
            self.failures.append(f"{name}: {type(error).__name__}: {str(error)[:_MOST_TEXT]}")

    def add(self, entry: Entry, model: bytes, outputs: Sequence[Array]) -> None:
        """Add a model and its reference outputs; ValueError where it is too large."""
        if len(model) > MOST_BYTES:
            raise ValueError(f"{entry.name}: model must have at most {MOST_BYTES} bytes, got {len(model)}")
        stream = io.BytesIO()
        np.savez(stream, *map(_plain, outputs))
        self.files |= {f"{entry.name}.onnx": model, f"{entry.name}.npz": stream.getvalue()}
        self.entries.append(entry)

    def write(self) -> str:
        """Write the archive, the same bytes for the same models; returns a report on its models."""
        index = json.dumps([asdict(entry) for entry in self.entries], indent=1)
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in {"index.json": index.encode(), **self.files}.items():
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
        size = f"{self.path.name}: {len(self.entries)} models, {self.path.stat().st_size:,} bytes"
        return "\n  not exported: ".join([size, *self.failures])


def without_traces(message: Message) -> bytes:
    """A model of ONNX (or a part of it) without the paths and texts that exporters leave in it."""
    for name in ("doc_string", "metadata_props"):
        if name in message.DESCRIPTOR.fields_by_name:
            message.ClearField(name)
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                without_traces(part)
    return bytes(message.SerializeToString())


def onnxruntime_session(content: bytes) -> InferenceSession:
    """ONNX Runtime on one thread of the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def onnxruntime_runs(content: bytes, samples: Iterable[Mapping[str, Array]]) -> list[list[Array]]:
    """What ONNX Runtime computes of each sample; inputs that exporters removed are not fed."""
    session = onnxruntime_session(content)
    names = {item.name for item in session.get_inputs()}
    fed = ({name: x for name, x in sample.items() if name in names} for sample in samples)
    return [list(map(np.asarray, session.run(None, inputs))) for inputs in fed]


def onnxruntime_outputs(content: bytes, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of `onnxruntime_runs` of one sample."""
    return onnxruntime_runs(content, [inputs])[0]


FOLDER = Path(__file__).resolve().parents[2] / "tests" / "zoo"
"""The archives, which only the source tree has."""


@dataclass(frozen=True)
class ZooModel:
    """An entry with its file and reference outputs."""

    entry: Entry
    content: bytes
    outputs: tuple[Array, ...]


def archives() -> list[Path]:
    """The archives of the source tree; none where only the package is installed."""
    return sorted(FOLDER.glob("*.zip"))


def read(path: str | Path) -> Iterator[ZooModel]:
    """The models of an archive."""
    with zipfile.ZipFile(path) as archive:
        for fields in json.loads(archive.read("index.json")):
            entry = _entry(fields)
            with np.load(io.BytesIO(archive.read(f"{entry.name}.npz"))) as arrays:
                outputs = tuple(arrays[name] for name in arrays.files)
            yield ZooModel(entry, archive.read(f"{entry.name}.onnx"), outputs)


def _entry(fields: Mapping[str, Any]) -> Entry:
    inputs = tuple(Input(**{**item, "shape": tuple(item["shape"])}) for item in fields["inputs"])
    return Entry(**{**fields, "inputs": inputs})


def largest_error(outputs: Sequence[Array], expected: Sequence[Array]) -> float:
    """The greatest difference of all outputs over the greatest expected value of each.

    Integers and strings that differ, other shapes or types, and NaN in other places are infinite.
    """
    if len(outputs) != len(expected):
        return np.inf
    pairs = zip(map(_plain, outputs), expected, strict=True)
    return max((_error(*pair) for pair in pairs), default=0.0)


def _plain(array: Array) -> Array:
    """Strings as NumPy stores them in files."""
    return array.astype(str) if array.dtype == object else array


def _error(output: Array, expected: Array) -> float:
    if output.shape != expected.shape or (output.dtype != expected.dtype and expected.dtype.kind != "U"):
        return np.inf
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(output, expected) else np.inf
    finite = np.isfinite(expected)
    same = np.array_equal(output[~finite], expected[~finite], equal_nan=True)
    if not same or not np.isfinite(output[finite]).all():
        return np.inf
    if not finite.any():
        return 0.0
    worst = np.abs(output[finite].astype(np.float64) - expected[finite]).max()
    return float(worst / max(np.abs(expected[finite]).max(), 1e-9))
