# SPDX-License-Identifier: Apache-2.0
"""A network on a CUDA driver without a device, whose kernels are interpreted in its memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.stub_cuda import StubCuda
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler import ir
from vdla.compiler.codegen.ptx import PtxSource
from vdla.runtime.grid.cuda_devices import CudaDevice, open_cuda

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)


def two_layers() -> object:
    """Products of 6 x 5 and 5 x 3 with a rectifier between, and a softmax."""
    random = np.random.default_rng(0)
    weights = {"w": (6, 5), "v": (5, 3)}
    constants = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32), n) for n, s in weights.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MatMul", ["b", "v"], ["c"], name="second"),
        helper.make_node("Softmax", ["c"], ["y"], name="soft"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in (("x", X.shape), ("y", (2, 3)))]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_network_runs_in_device_memory(stub_cuda: StubCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    fns: list[ir.Function] = []
    own = CudaDevice.compile

    def kept(device: CudaDevice, fn: ir.Function) -> PtxSource:
        fns.append(replace(fn, name=f"{fn.name}{len(fns)}"))  # by which kernels are told apart
        return own(device, fns[-1])

    monkeypatch.setattr(CudaDevice, "compile", kept)
    model = vdla.compile(two_layers(), "cuda")
    stub_cuda.interpret(*fns, limits=open_cuda().limits)
    np.testing.assert_allclose(model(X), vdla.compile(two_layers(), "host")(X), rtol=1e-5)
    assert sum(line.startswith("cuLaunchKernel") for line in stub_cuda.log) >= 3
