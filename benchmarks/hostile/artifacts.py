"""Compiled networks in files, mutated with and without a valid checksum, then loaded and run.

Machine code is trusted, as that of a shared library is: changed code is laid out, but never run.
Nor are networks with a GPU, whose kernels are text among what is changed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from vdla.benchmarks.hostile.mutate import mutated_bytes
from vdla.benchmarks.hostile.mutate_json import mutate_json
from vdla.benchmarks.hostile.source import HostileSource
from vdla.hardware.program.program import PROGRAM_FILE
from vdla.runtime.executor.artifact import ARTIFACT_FILE, Artifact
from vdla.runtime.executor.load import load
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import ControlStep, PlannedValue, numpy_dtype
from vdla.runtime.native.elf_image import ElfLayout
from vdla.runtime.native.elf_object import ElfObject
from vdla.support.sealed_file import FileFormat

_CASES = 4_000
_MOST_ELEMENTS = 1 << 16  # of an input of a network that is run
_BASE = 0x40000000  # of code that is laid out
_PARTS = ("file", "manifest", "manifest", "manifest", "text", "constants", "program", "kernel")


def read_artifact(seed: int) -> str:
    """Loads the file of a seed, and runs what is in it on zeros if its inputs are small."""
    part, content = hostile_artifact(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hostile.vdla"
        path.write_bytes(content)
        model = load(path)
    assert isinstance(model, Model)
    with model:
        if part == "kernel":
            return _laid_out(model.artifact)
        return _run(model)


def _laid_out(artifact: Artifact) -> str:
    """Parses and relocates the kernels, as loading them does."""
    for kernel in artifact.kernels:
        name = kernel.signature.symbol
        layout = ElfLayout.of(ElfObject.parse(kernel.object, name), name)
        layout.image(_BASE, dict.fromkeys(layout.externals, _BASE))
    return "laid out"


def _run(model: Model) -> str:
    plan = model.artifact.plan
    plans = (plan, *plan.bodies)
    if model.artifact.grid is not None:
        return "loaded"  # the code of its kernels is a part of the manifest
    if any(isinstance(step, ControlStep) and step.op == "Loop" for each in plans for step in each.steps):
        return "loaded"  # it may count to any number
    if any(prod(value.shape or ()) > _MOST_ELEMENTS for each in plans for value in each.values.values()):
        return "loaded"
    model.run({name: _zeros(value) for name, value in model.inputs.items()})
    return "ran"


def _zeros(value: PlannedValue) -> np.ndarray[Any, Any]:
    if value.dtype == "str":
        return np.full(value.shape or (), "", object)
    return np.zeros(value.shape or (), numpy_dtype(value.dtype))


# --- files ----------------------------------------------------------------------------------------


def hostile_artifact(seed: int) -> tuple[str, bytes]:
    """The part of a file that is mutated, and the file."""
    random = Random(seed)
    content, other = random.choice(corpus()), random.choice(corpus())
    part = random.choice(_PARTS)
    if part == "file":
        return part, mutated_bytes(content, other, random)
    manifest, payload = _members(ARTIFACT_FILE, content)
    if part == "manifest":
        return part, ARTIFACT_FILE.seal(_mutated_manifest(manifest, random), [payload])
    if part == "text":
        return part, ARTIFACT_FILE.seal(mutated_bytes(manifest, other, random), [payload])
    start, end = _range(json.loads(manifest), len(payload), part, random)
    mutated = _mutated_program if part == "program" and start < end else _mutated_in_place
    return part, ARTIFACT_FILE.seal(
        *_with_sizes(json.loads(manifest), payload, start, end, mutated(payload[start:end], random))
    )


def _members(form: FileFormat, content: bytes) -> tuple[bytes, bytes]:
    """The manifest and all members of a file."""
    manifest, payload = form.unseal(content, "corpus")
    return manifest, bytes(payload.rest())


def _mutated_manifest(manifest: bytes, random: Random) -> bytes:
    raw = json.loads(manifest)
    mutate_json(raw, random, _words())
    return json.dumps(raw).encode()


def _range(manifest: Mapping[str, Any], nbytes: int, part: str, random: Random) -> tuple[int, int]:
    """The bytes of all constants, of one kernel or of one program in the payload."""
    sizes = [*(size for _, size in manifest["kernels"]), *manifest["programs"]]
    starts = [nbytes - sum(sizes[at:]) for at in range(len(sizes) + 1)]
    kernels = len(manifest["kernels"])
    if part == "constants":
        return 0, starts[0]
    at = range(kernels) if part == "kernel" else range(kernels, len(sizes))
    chosen = random.choice(at) if at else len(sizes)
    return starts[chosen], starts[chosen] + ([*sizes, 0][chosen])


def _with_sizes(
    manifest: dict[str, Any], payload: bytes, start: int, end: int, part: bytes
) -> tuple[bytes, list[bytes]]:
    """A manifest and members with `part` in place of a range; sizes of programs are corrected."""
    if len(part) != end - start:
        place = len(payload)
        for index in reversed(range(len(manifest["programs"]))):
            place -= manifest["programs"][index]
            if place == start:
                manifest["programs"][index] = len(part)
    return json.dumps(manifest).encode(), [payload[:start], part, payload[end:]]


def _mutated_in_place(part: bytes, random: Random) -> bytes:
    """A part of the same length."""
    return mutated_bytes(part, part, random)[: len(part)].ljust(len(part), b"\0") if part else part


def _mutated_program(content: bytes, random: Random) -> bytes:
    """A program with a valid checksum: changed instructions and data, or a changed manifest."""
    manifest, payload = _members(PROGRAM_FILE, content)
    if random.random() < 0.5:
        return PROGRAM_FILE.seal(_mutated_manifest(manifest, random), [payload])
    return PROGRAM_FILE.seal(manifest, [_mutated_in_place(payload, random)])


@cache
def corpus() -> tuple[bytes, ...]:
    """Well-formed files."""
    from vdla.benchmarks.hostile.artifact_corpus import artifacts

    return tuple(artifacts())


def _words() -> tuple[str, ...]:
    """Names of functions, element types and roles, to be put in place of others."""
    from vdla.runtime.numpy_operators import FUNCTIONS

    return (*FUNCTIONS, "int8", "uint8", "float64", "bool", "int4", "complex128", "bfloat16", "str", "object")


ARTIFACTS = HostileSource("artifact", read_artifact, _CASES, corpus)
