# SPDX-License-Identifier: Apache-2.0
"""Compiled networks in files, mutated with and without a valid checksum, then loaded and run.

Machine code is trusted, as that of a shared library is: changed code is laid out, but never run.
Nor are networks with a GPU, whose kernels are text among what is changed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto
from onnx.helper import make_empty_tensor_value_info as untyped
from onnx.helper import make_graph, make_node

from vdla.hardware.program.program import PROGRAM_FILE
from vdla.runtime.executor.artifact import ARTIFACT_FILE, Artifact
from vdla.runtime.executor.load import load
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import ControlStep, PlannedValue, numpy_dtype
from vdla.runtime.grid.opencl_context import OpenClDeviceError
from vdla.runtime.native.elf_image import ElfLayout
from vdla.runtime.native.elf_object import ElfObject
from vdla.runtime.network.compile_network import compile_network
from vdla.support.sealed_file import FileFormat
from vdla.verification.hostile.mutate import mutate_json, mutated_bytes
from vdla.verification.hostile.onnx_models import small_model, value_info, weights
from vdla.verification.hostile.source import HostileSource

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
    if any(isinstance(step, ControlStep) and step.op == "Loop" for item in plans for step in item.steps):
        return "loaded"  # it may count to any number
    if any(prod(value.shape or ()) > _MOST_ELEMENTS for item in plans for value in item.values.values()):
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
    return tuple(artifacts())


def _words() -> tuple[str, ...]:
    """Names of functions, element types and roles, to be put in place of others."""
    from vdla.runtime.numpy_operators import FUNCTIONS

    return (*FUNCTIONS, "int8", "uint8", "float64", "bool", "int4", "complex128", "bfloat16", "str", "object")


ARTIFACTS = HostileSource("artifact", read_artifact, _CASES, corpus)


# --- corpus ---------------------------------------------------------------------------------------
# Small compiled networks with every kind of step: of which hostile ones are made.


def artifacts() -> Iterator[bytes]:
    """The files."""
    yield compile_network(_floats(), "host").artifact.to_bytes()
    yield compile_network(_functions(), "host").artifact.to_bytes()
    yield compile_network(_bodies(), "host").artifact.to_bytes()
    for machine in ("tiny", "pynq_z1"):
        place = dict.fromkeys(("c", "d", "y"), "vdla")
        yield compile_network(_quantised(), machine, place=place).artifact.to_bytes()
    with suppress(OpenClDeviceError):  # where there is no device
        yield compile_network(_floats(), "opencl").artifact.to_bytes()


def _floats() -> ModelProto:
    """Kernels in a row that share the arena, a view, indices among the constants."""
    nodes = [
        make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        make_node("Flatten", ["p"], ["f"]),
        make_node("Gemm", ["f", "g"], ["h"], transB=1),
        make_node("Gather", ["h", "i"], ["t"], axis=1),
        make_node("Softmax", ["t"], ["y"]),
    ]
    constants = {"w": weights(4, 2, 3, 3), "g": weights(5, 36), "i": np.array([3, 0, 4, 1])}
    return small_model(nodes, [value_info("x", 2, 2, 6, 6)], ["y", "f"], constants)


def _functions() -> ModelProto:
    """NumPy functions with attributes, between kernels."""
    nodes = [
        make_node("TopK", ["x", "k"], ["v", "i"], axis=1, largest=0),
        make_node("Det", ["v"], ["d"]),
        make_node("GatherND", ["x", "n"], ["g"]),
        make_node("Hardmax", ["x"], ["m"], axis=-1),
        make_node("Relu", ["d"], ["r"]),
    ]
    constants = {"k": np.array([4]), "n": np.array([[0, 1], [1, 2]])}
    return small_model(nodes, [value_info("x", 2, 5, 4)], ["r", "i", "g", "m"], constants)


def _bodies() -> ModelProto:
    """A branch that captures, a scan over rows."""
    then = make_graph([make_node("Add", ["x", "one"], ["r"])], "then", [], [untyped("r")])
    other = make_graph([make_node("Mul", ["x", "x"], ["r"])], "else", [], [untyped("r")])
    state, row = (value_info(name, 4) for name in ("state", "row"))
    add = [make_node("Add", ["state", "row"], ["next"]), make_node("Neg", ["next"], ["out"])]
    scan = make_graph(add, "scan", [state, row], [untyped("next"), untyped("out")])
    nodes = [
        make_node("ReduceSum", ["x"], ["t"], keepdims=0),
        make_node("Less", ["t", "zero"], ["c"]),
        make_node("If", ["c"], ["b"], then_branch=then, else_branch=other),
        make_node("Scan", ["start", "b"], ["last", "y"], body=scan, num_scan_inputs=1),
    ]
    constants = {"one": np.float32(1), "zero": np.float32(0), "start": np.zeros(4, np.float32)}
    return small_model(nodes, [value_info("x", 3, 4)], ["last", "y"], constants)


def _quantised() -> ModelProto:
    """Convolutions and an addition, for the accelerator."""
    nodes = [
        make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        *_convolution("q", "w1", "c"),
        *_convolution("c", "w2", "d"),
        make_node("DequantizeLinear", ["c", "s", "z"], ["left"]),
        make_node("DequantizeLinear", ["d", "s", "z"], ["right"]),
        make_node("Add", ["left", "right"], ["sum"]),
        make_node("QuantizeLinear", ["sum", "s", "z"], ["y"]),
    ]
    weights = (np.arange(144) % 7 - 3).astype(np.int8).reshape(4, 4, 3, 3)
    constants = {"s": np.float32(0.125), "z": np.int8(0), "w1": weights, "w2": weights[:, :, 1:2, 1:2]}
    return small_model(nodes, [value_info("x", 1, 4, 6, 6)], ["y"], constants)


def _convolution(x: str, weight: str, name: str) -> list[NodeProto]:
    """A quantised convolution that keeps the extents of its input."""
    auto = {"auto_pad": "SAME_UPPER"}
    return [
        make_node("DequantizeLinear", [x, "s", "z"], [f"{name}.x"]),
        make_node("DequantizeLinear", [weight, "s", "z"], [f"{name}.w"]),
        make_node("Conv", [f"{name}.x", f"{name}.w"], [f"{name}.f"], **auto),
        make_node("QuantizeLinear", [f"{name}.f", "s", "z"], [name]),
    ]
