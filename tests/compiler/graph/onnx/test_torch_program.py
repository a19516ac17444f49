# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export; torch itself is optional."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper

import vdla
from vdla.compiler.graph.onnx import torch_program
from vdla.compiler.graph.onnx.errors import OnnxError


def _fail(message: str):
    def call(*_: object, **__: object) -> None:
        raise RuntimeError(message)

    return call


def _double() -> object:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", value[:1], value[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    fake = ModuleType("torch")
    fake.__version__ = "9.9"
    fake.export = SimpleNamespace(load=lambda path: path)
    fake.onnx = SimpleNamespace(export=lambda *_, **__: SimpleNamespace(model_proto=_double()))
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(torch_program, "find_spec", lambda name: name)
    return fake


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "net.pt2"
    path.write_bytes(b"PK\x03\x04")
    return path


def test_a_program_runs_with_symbolic_dimensions(torch: ModuleType, program: Path) -> None:
    model = vdla.compile(str(program), "host")
    for batch in (1, 4):
        x = np.arange(3 * batch, dtype=np.float32).reshape(batch, 3)
        assert np.array_equal(model(x), x + x)


def test_absent_packages_are_named(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_program, "find_spec", lambda name: None)
    with pytest.raises(OnnxError) as caught:
        vdla.compile(str(program), "host")
    assert str(caught.value) == (
        f"{program}: the packages torch and onnxscript must be installed to read a program of torch.export, got no "
        "torch and no onnxscript; do: pip install 'vdla[torch]', or, where torch is, convert it to ONNX first: "
        f'torch.onnx.export(torch.export.load("{program}"), f="net.onnx", dynamo=True)'
    )


def test_an_unreadable_program_is_one_sentence(torch: ModuleType, program: Path) -> None:
    torch.export.load = _fail("older format.\nmore")
    with pytest.raises(OnnxError) as caught:
        vdla.compile(str(program), "host")
    assert str(caught.value) == (
        f"{program}: the file must be a program that this version of torch reads (9.9), got RuntimeError: older "
        "format; save it again with torch.export.save"
    )


def test_an_operator_without_an_export_is_one_sentence(torch: ModuleType, program: Path) -> None:
    torch.onnx.export = _fail("No ONNX function for my::op")
    with pytest.raises(OnnxError) as caught:
        vdla.compile(str(program), "host")
    assert str(caught.value) == (
        f"{program}: the program must be one that torch.onnx.export converts, got RuntimeError: No ONNX function for "
        "my::op; rewrite the operator that it names, or export the model to ONNX by hand"
    )


def test_a_missing_file_is_named(torch: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(OnnxError, match="no such file"):
        vdla.compile(str(tmp_path / "none.pt2"), "host")


def test_the_exporter_of_torch_agrees(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    layer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    path = tmp_path / "layer.pt2"
    exported = torch.export.export(layer, (torch.randn(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(exported, str(path))
    model = vdla.compile(str(path), "host")
    for count in (1, 5):
        x = torch.randn(count, 4)
        assert np.allclose(model(x.numpy()), layer(x).detach().numpy(), atol=1e-5)
