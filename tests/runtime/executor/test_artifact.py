# SPDX-License-Identifier: Apache-2.0
"""Artifacts: files that come back as they were, and files that are refused."""

import json
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from helpers.plans import expected, small_artifact

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.runtime.executor.artifact import ARTIFACT_FILE, Artifact
from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network
from vdla.support.sealed_file import PREFIX_BYTES

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def content() -> bytes:
    return small_artifact().to_bytes()


def resealed(content: bytes, change) -> bytes:
    """The file with another manifest under a valid checksum."""
    manifest, payload = ARTIFACT_FILE.unseal(content, "x")
    raw = json.loads(manifest)
    change(raw)
    return ARTIFACT_FILE.seal(
        json.dumps(raw).encode(), [bytes(payload.take("all", len(content) - PREFIX_BYTES - len(manifest)))]
    )


def refused(content: bytes, message: str) -> None:
    with pytest.raises(ArtifactError, match=f"^{re.escape(message)}$"):
        Artifact.from_bytes(content, "f")


def test_round_trip(content, tmp_path):
    path = tmp_path / "small.vdla"
    small_artifact().save(path)
    assert path.read_bytes() == content
    loaded = Artifact.load(path)
    assert loaded.plan == small_artifact().plan
    assert loaded.origin == {"source": "small"}
    assert loaded.to_bytes() == content
    assert np.allclose(Model(loaded)(X), expected(X))


def test_the_content_of_a_file_is_freed_before_its_programs_are_verified(tmp_path, monkeypatch):
    size = 1 << 22
    artifact = small_artifact()
    constant = np.zeros(size, np.int8)
    path = tmp_path / "large.vdla"
    replace(artifact, constants={**artifact.constants, "large": constant}).save(path)
    held = []

    def check(self, *, verified=False):
        held.append(tracemalloc.get_traced_memory()[0])
        return self

    monkeypatch.setattr(Artifact, "check", check)
    tracemalloc.start()
    try:
        Artifact.load(path)
    finally:
        tracemalloc.stop()
    assert size < held[0] < 1.5 * size


def test_damage_is_refused(content):
    rule = "f: file must be a compiled network (vdla compile MODEL.onnx -o MODEL.vdla)"
    refused(b"", f"{rule}, got an empty file")
    refused(b"PK\3\4" + content, f"{rule}, got one that begins with b'PK\\x03\\x04VDLA'")
    refused(content[:-1], f"f: length must be {len(content)} bytes, got {len(content) - 1}")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 4
    with pytest.raises(ArtifactError, match=r"^f: checksum must be [0-9a-f]{12}, got [0-9a-f]{12} \(damaged\)$"):
        Artifact.from_bytes(bytes(flipped), "f")
    newer = content[:8] + (4).to_bytes(4, "little") + content[12:]
    refused(newer, "f: format version must be at most 3, got 4 (made by a newer vdla)")


def _set(*path):
    """A change of the manifest: the last of `path` is the value at the keys before it."""
    *keys, last, value = path

    def change(raw):
        for key in keys:
            raw = raw[key]
        raw[last] = value

    return change


STEP = ("plan", "steps", 0)
WRONG_MANIFESTS = [
    (("plan", "arena_bytes", 1 << 50), "plan g: arena must be of 0..1099511627776 bytes, got 1125899906842624"),
    (("plan", "arena_bytes", True), "plan.arena_bytes: value must be int, got True"),
    (("plan", "outputs", ["q"]), "plan g: values must include q, got no such value"),
    (
        ("plan", "values", "y", "offset", 7),
        "plan g: y must lie at a multiple of 64 in the arena of 128 bytes, got 7..31",
    ),
    (("plan", "values", "y", "shape", [-2, 3]), "plan g: extents of y must be at least 0, got [-2, 3]"),
    (
        ("plan", "values", "y", "dtype", "float99"),
        "artifact: element type must be one that NumPy or ml_dtypes has, got float99",
    ),
    ((*STEP, "kernel", 5), "plan g, step MatMul+Relu: kernel must be one of 2, got 5"),
    (
        (*STEP, {"kind": "Shell"}),
        "plan.steps[0]: kind must be one of KernelStep, ProgramStep, NumpyStep, ControlStep, "
        "GridStep, CopyStep, got {'kind': 'Shell'}",
    ),
    (
        (*STEP, "arguments", ["x", "x", "b"]),
        "plan g, step MatMul+Relu: x must be float32{weight}, got float32[2, 3]",
    ),
    (("plan", "steps", 1, "inputs", ["y"]), "plan g, step MatMul+Neg: y must be computed before, got no such step"),
    (("plan", "values", "b", "offset", None), "plan g, step MatMul+Relu: b must have a place in the arena, got none"),
    (
        ("plan", "steps", 1, "arguments", ["x", "b.t0_weight", "y"]),
        "plan g, step MatMul+Neg: x must be an input or output of the step, got b, y",
    ),
    (("plan", "values", "b", "offset", 0), "plan g: b must share no bytes with x, live at one step"),
    (("constants", 0, 2, [3, -3]), "constant b.t0_weight: extents must be integers from 0, got [3, -3]"),
    (("constants", 0, 2, [3, 1 << 40]), None),
    ((*STEP, "extra", 1), None),
    (("cpu", 3), None),
    (("kernels", [["{", 0]]), None),
    (("plan", []), None),
]


@pytest.mark.parametrize(("path", "message"), WRONG_MANIFESTS)
def test_manifests_that_break_a_rule(content, path, message):
    bad = resealed(content, _set(*path))
    if message is not None:
        (weight,) = small_artifact().constants.values()  # packed for the lanes of this CPU
        message = message.replace("{weight}", str(list(weight.shape)))
        refused(bad, f"f: content must be a valid model, got {message}")
    with pytest.raises(ArtifactError, match=r"^f: (content|manifest) must "):
        Artifact.from_bytes(bad, "f")


def test_random_changes_of_the_manifest_are_errors_or_run(content):
    rng = np.random.default_rng(0)
    manifest, payload = ARTIFACT_FILE.unseal(content, "x")
    members = bytes(payload.take("all", len(content) - PREFIX_BYTES - len(manifest)))
    for _ in range(300):
        text = bytearray(manifest)
        for _ in range(rng.integers(1, 4)):
            text[rng.integers(len(text))] = rng.choice(list(b'0123456789-[]{},":ae'))
        try:
            Artifact.from_bytes(ARTIFACT_FILE.seal(bytes(text), [members]), "f")
        except ArtifactError:
            continue


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactError, match=r"path must be writable, got Not a directory$"):
        small_artifact().save(tmp_path / "file" / "m.vdla")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_constants_are_aligned_and_read_only(content):
    ((name, weight),) = small_artifact().constants.items()
    array = Artifact.from_bytes(content, "f").constants[name]
    assert np.array_equal(array, weight)
    assert array.ctypes.data % 64 == 0
    assert not array.flags.writeable


def test_values_that_overlap_are_refused():
    artifact = small_artifact()
    values = dict(artifact.plan.values)
    values["b"] = replace(values["b"], offset=values["x"].offset)
    with pytest.raises(ArtifactError, match="must share no bytes with x"):
        replace(artifact, plan=replace(artifact.plan, values=values)).check()


def test_constants_of_strings_come_back(tmp_path):
    kinds = {name: TensorType("str", (2,)) for name in ("x", "suffix", "y")}
    suffix = np.array(["a", "b\u00e9"], object)
    node = Node("StringConcat", ("x", "suffix"), ("y",))
    graph = Graph("g", ("x",), ("y",), (node,), {"suffix": suffix}, kinds)
    compile_network(graph).save(tmp_path / "m.vdla")
    loaded = Model.load(tmp_path / "m.vdla")
    assert loaded(np.array(["1", "2"], object)).tolist() == ["1a", "2b\u00e9"]
    content = loaded.artifact.to_bytes()
    wrong = resealed(content, _set("constants", 0, 3, ["a", 5]))
    refused(
        wrong,
        "f: content must be a valid model, got constant suffix.constant: elements must be 2 strings, got ['a', 5]",
    )
