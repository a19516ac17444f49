# SPDX-License-Identifier: Apache-2.0
"""Models of earlier calls: kept, found again, refused where anything differs or is damaged."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import vdla
from vdla.compiler.target import Target
from vdla.hardware.config import Config
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.network import compile_network as compiling
from vdla.runtime.network import kept_models
from vdla.support.cache import trim

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept models, in a cache of the test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("VDLA_MODEL_CACHE")
    return tmp_path / "cache" / "vdla" / "models"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The sources that were compiled."""
    sources, original = [], compiling.compile_network

    def compile_network(source, target, **options):
        sources.append(source)
        return original(source, target, **options)

    monkeypatch.setattr(compiling, "compile_network", compile_network)
    return sources


def model_file(path: Path, factor: float = 2.0, rows: int | str = 2) -> Path:
    """A model that multiplies its input."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 3]) for name in "xy"]
    constant = numpy_helper.from_array(np.array([factor, 1, 1], np.float32), "factor")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["y"])], "product", values[:1], values[1:], [constant]
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_an_equal_call_compiles_nothing(tmp_path, folder, compiled):
    path = model_file(tmp_path / "m.onnx")
    first, second = (vdla.compile(path, "host") for _ in range(2))
    assert compiled == [path]
    assert first.artifact.to_bytes() == second.artifact.to_bytes()
    np.testing.assert_array_equal(second(X), X * np.float32([2, 1, 1]))
    assert len(list(folder.iterdir())) == 1


def test_content_is_kept_as_a_file_is(tmp_path, compiled):
    content = model_file(tmp_path / "m.onnx").read_bytes()
    for _ in range(2):
        np.testing.assert_array_equal(vdla.compile(content, "host")(X), X * np.float32([2, 1, 1]))
    assert compiled == [content]


def keys(path: Path, **options) -> set[str | None]:
    given = {"cpu": None, "place": None, **options}
    return {kept_models._key(path, "pynq_z1", {k: v for k, v in given.items() if v is not None})}


def test_whatever_a_compilation_depends_on_is_in_the_key(tmp_path, monkeypatch):
    path = model_file(tmp_path / "m.onnx")
    known = (
        keys(path) | keys(path, cpu="x86-64") | keys(path, cpu=Target.named("x86-64")) | keys(path, place={"y": "cpu"})
    )
    known |= keys(path, extents={"n": 1}) | keys(path, shapes=(4, 3)) | keys(model_file(tmp_path / "n.onnx"))
    known |= {kept_models._key(path, target, {}) for target in ("host", "x86-64", Config.preset("tiny"))}
    monkeypatch.setattr(kept_models, "toolkit_digest", lambda: "other sources")
    known |= keys(path)
    monkeypatch.setattr(kept_models, "version", lambda library: "0")
    known |= keys(path)
    monkeypatch.setattr(kept_models.Target, "named", staticmethod(lambda name: "other CPU"))
    known |= keys(path)
    known |= keys(model_file(path, factor=3.0))
    assert len(known) == 14
    assert None not in known


@pytest.mark.parametrize(
    "options",
    [{"observe": lambda *_: None}, {"calibration": [X]}, {"gpu": "opencl"}, {"extents": {"n": np.int64(1)}},
     {"kernel_points": lambda key: None}],
)  # fmt: skip
def test_what_depends_on_more_is_not_kept(tmp_path, options):
    assert kept_models._key(model_file(tmp_path / "m.onnx"), "host", options) is None


def test_models_with_constants_elsewhere_are_not_kept(tmp_path):
    path = model_file(tmp_path / "m.onnx")
    path.write_bytes(path.read_bytes() + b"location")
    assert kept_models._key(path, "host", {}) is None
    assert kept_models._key(tmp_path / "none.onnx", "host", {}) is None
    assert kept_models._key(model_file(path), "opencl:0", {}) is None


def test_a_damaged_model_is_compiled_again(tmp_path, folder, compiled):
    path = model_file(tmp_path / "m.onnx")
    vdla.compile(path, "host")
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:20], b""):
        entry.write_bytes(damaged)
        np.testing.assert_array_equal(vdla.compile(path, "host")(X), X * np.float32([2, 1, 1]))
        assert entry.read_bytes() == whole
    assert len(compiled) == 4


def test_nothing_is_kept_where_the_environment_says_so(tmp_path, folder, compiled, monkeypatch):
    monkeypatch.setenv("VDLA_MODEL_CACHE", "0")
    for _ in range(2):
        vdla.compile(model_file(tmp_path / "m.onnx"), "host")
    assert len(compiled) == 2
    assert not folder.exists()


def test_a_cache_that_cannot_be_written_is_not_needed(tmp_path, folder, compiled):
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    np.testing.assert_array_equal(vdla.compile(model_file(tmp_path / "m.onnx"), "host")(X), X * np.float32([2, 1, 1]))


def test_a_model_of_which_something_warned_warns_again(tmp_path, folder, monkeypatch):
    original = compiling.compile_network

    def compile_network(source, target, **options):
        warnings.warn("mind the model", UserWarning, 2)
        return original(source, target, **options)

    monkeypatch.setattr(compiling, "compile_network", compile_network)
    for _ in range(2):
        with pytest.warns(UserWarning, match="mind the model"):
            vdla.compile(model_file(tmp_path / "m.onnx"), "host")
    assert not folder.exists()


def test_a_warning_that_nobody_wants_to_see_keeps_no_model(tmp_path, folder, monkeypatch):
    original = compiling.compile_network

    def compile_network(source, target, **options):
        warnings.warn("mind the model", UserWarning, 2)
        return original(source, target, **options)

    monkeypatch.setattr(compiling, "compile_network", compile_network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vdla.compile(model_file(tmp_path / "m.onnx"), "host")
    assert not folder.exists()


def test_plans_for_further_shapes_are_compiled_as_the_kept_file_says(tmp_path, compiled):
    path = model_file(tmp_path / "m.onnx", rows="n")
    for rows in (1, 4):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_array_equal(vdla.compile(path, "host")(x), x * np.float32([2, 1, 1]))
    assert compiled[0] == path


def test_expressions_of_a_kept_model_are_those_of_its_file(tmp_path):
    path = model_file(tmp_path / "m.onnx")
    fresh, kept = (vdla.compile(path, "pynq_z1") for _ in range(2))
    assert kept.expressions == fresh.expressions
    later = vdla.compile(path, "pynq_z1")
    model_file(path, factor=3.0)
    with pytest.raises(ModelError) as error:
        _ = later.expressions
    rule = "the file must be the one that was compiled, to say what its programs must compute"
    assert str(error.value) == f"{path}: {rule}, got another one; compile it again"


def test_the_files_used_longest_ago_are_removed(tmp_path):
    for number, name in enumerate("abcd"):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (number, number))
    os.utime(tmp_path / "a", (9, 9))
    trim(tmp_path, 25)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "d"]
    trim(tmp_path, 0)
    assert not list(tmp_path.iterdir())
