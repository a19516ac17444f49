# SPDX-License-Identifier: Apache-2.0
"""Networks with a part on a GPU: equal to the CPU, whichever nodes run where."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers.opencl_functions import needs_opencl
from helpers.quantiser import to_qdq
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.errors import ArtifactError, ModelError
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import CopyStep, DeviceValue, GridStep
from vdla.runtime.grid.protocol import GridDeviceError
from vdla.runtime.grid.registry import open_grid_device
from vdla.runtime.network.compile_network import compile_network

pytestmark = needs_opencl
RNG = np.random.default_rng(0)
X = RNG.standard_normal((1, 2, 6, 6)).astype(np.float32)
NODES = ("conv", "relu", "pool", "fc", "soft")


def small():
    """Convolution, pool, reshape, product, softmax: float32."""
    weights = {"w": (4, 2, 3, 3), "v": (5, 36)}
    constants = [numpy_helper.from_array(RNG.standard_normal(s).astype(np.float32), n) for n, s in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "v"], ["g"], name="fc", transB=1),
        helper.make_node("Softmax", ["g"], ["y"], name="soft"),
    ]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)]
    ends.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5]))
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


SMALL = small()


@cache
def digits():
    """The quantised digits, an input, and the outputs of the CPU."""
    network = NETWORKS["digits"]
    model = network.build(**network.small)
    inputs, model = network.inputs(model), to_qdq(model, [network.inputs(model, seed=seed) for seed in (1, 2)])
    return model, inputs, compile_network(model).run(inputs).outputs


def steps(model):
    """The steps in a line each: a device and the names of what it reads and makes."""
    return [f"{s.placement.device}: {' '.join(s.inputs)} -> {' '.join(s.outputs)}" for s in model.artifact.plan.steps]


def devices_of(model):
    """The device of each operator by name."""
    found = [(op, step.placement.device) for step in model.artifact.plan.steps for op in step.placement.operators]
    return {op.name: device for op, device in found if op.op != "Copy"}


def test_the_target_opencl_runs_all_on_the_gpu_with_a_copy_at_each_end():
    wanted = vdla.compile(SMALL, "host")(X)
    model = vdla.compile(SMALL, "opencl")
    assert steps(model) == [
        "copy: x -> x@gpu",
        "gpu: x@gpu -> r@gpu",  # convolution and relu, fused
        "gpu: r@gpu -> p@gpu",
        "gpu: f@gpu -> g@gpu",  # a flattened view of p@gpu
        "gpu: g@gpu -> y@gpu",
        "copy: y@gpu -> y",
    ]
    np.testing.assert_allclose(model(X), wanted, rtol=1e-5, atol=1e-6)
    values = model.artifact.plan.values
    assert values["f@gpu"] == DeviceValue("float32", (1, 36), values["p@gpu"].offset, "p@gpu")
    assert values["x@gpu"].offset == values["p@gpu"].offset  # x is dead when p is made
    assert "c" not in values
    assert model.artifact.plan.device_bytes == 1024 + 288  # x and p behind r, whose 576 bytes take 1024


def test_a_value_is_copied_once_in_each_direction():
    model = compile_network(SMALL, "opencl", place={"relu": "cpu", "fc": "cpu"})
    assert steps(model) == [
        "copy: x -> x@gpu",
        "gpu: x@gpu -> c@gpu",
        "copy: c@gpu -> c",
        "cpu: c -> r",
        "copy: r -> r@gpu",
        "gpu: r@gpu -> p@gpu",
        "copy: p@gpu -> p",
        "cpu: f -> g",
        "copy: g -> g@gpu",
        "gpu: g@gpu -> y@gpu",
        "copy: y@gpu -> y",
    ]
    np.testing.assert_allclose(model(X), vdla.compile(SMALL, "host")(X), rtol=1e-5, atol=1e-6)


def test_modelled_cost_decides_beside_a_cpu():
    model = compile_network(SMALL, "host", gpu="opencl", place={"conv": "gpu"})
    assert [s.placement.device for s in model.artifact.plan.steps] == ["copy", "gpu", "copy", "cpu", "cpu", "cpu"]
    conv, *_, soft = [op for s in model.artifact.plan.steps for op in s.placement.operators if op.op != "Copy"]
    assert (conv.name, conv.reason) == ("conv", "placed on the GPU by the user")
    assert soft.reason.endswith(" on the GPU, 0.001 ms on the CPU, and copies between them")


def test_integers_on_the_gpu_are_those_of_the_cpu():
    model, inputs, wanted = digits()
    compiled = compile_network(model, "opencl")
    assert set(devices_of(compiled).values()) == {"gpu"}
    np.testing.assert_array_equal(compiled.run(inputs).outputs["logits"], wanted["logits"])


@pytest.mark.long
def test_integers_of_three_devices_are_those_of_the_cpu():
    model, inputs, wanted = digits()
    place = {"conv1": "vdla", "conv2": "gpu", "pool": "vdla", "conv3": "cpu", "conv4": "gpu", "logits": "vdla"}
    with compile_network(model, "tiny", gpu="opencl", place=place) as compiled:
        found = compiled.run(inputs)
    placed = devices_of(compiled)
    assert {name: placed[name] for name in place} == place
    assert found.cycles > 0
    np.testing.assert_array_equal(found.outputs["logits"], wanted["logits"])


def test_a_saved_model_runs_the_same(tmp_path):
    model = compile_network(SMALL, "opencl", place={"pool": "cpu"})
    model.save(tmp_path / "m.vdla")
    loaded = Model.load(tmp_path / "m.vdla")
    assert loaded.artifact.plan == model.artifact.plan
    np.testing.assert_array_equal(loaded(X), model(X))


def test_a_saved_model_without_its_device(tmp_path, monkeypatch):
    compile_network(SMALL, "opencl").save(tmp_path / "m.vdla")
    loaded = Model.load(tmp_path / "m.vdla")
    from vdla.runtime.executor import model as module

    def missing(target):
        raise GridDeviceError(f"{target}: a driver must be installed, got none")

    monkeypatch.setattr(module, "open_grid_device", missing)
    with pytest.raises(ModelError) as caught:
        loaded(X)
    assert str(caught.value) == (
        "model small: its GPU must be available, got opencl: a driver must be installed, got none"
    )


def test_places_and_devices_that_are_refused():
    with pytest.raises(ModelError, match=r"^compile: device of conv must be one of cpu, gpu, got vdla$"):
        compile_network(SMALL, "opencl", place={"conv": "vdla"})
    with pytest.raises(ModelError, match=r"^compile: device of conv must be one of vdla, cpu, gpu, got fpga$"):
        compile_network(SMALL, "tiny", gpu="opencl", place={"conv": "fpga"})
    with pytest.raises(ModelError, match=r"^compile: gpu must be left out for the target opencl, got 'opencl'$"):
        compile_network(SMALL, "opencl", gpu="opencl")
    with pytest.raises(
        GridDeviceError, match=r"^gpu: the device must be opencl\[:NAME\] or cuda\[:NAME\], got 'metal'$"
    ):
        compile_network(SMALL, "host", gpu="metal")
    with pytest.raises(GridDeviceError, match=r"^opencl: the device must be one of .*, got 'abacus'$"):
        compile_network(SMALL, "opencl:abacus")


def test_a_node_without_a_kernel_stays_on_the_cpu_and_is_refused_when_named(monkeypatch):
    device = open_grid_device("opencl")
    monkeypatch.setattr(type(device), "supports", lambda self, dtype: dtype != "float32")
    model = compile_network(SMALL, "opencl")
    assert model.artifact.grid is None
    reasons = {op.reason for s in model.artifact.plan.steps for op in s.placement.operators} - {""}
    assert reasons == {"on the GPU it must have element types of the device, got float32"}
    with pytest.raises(ModelError, match=r"^compile: on the GPU Conv conv must have element types of the device"):
        compile_network(SMALL, "opencl", place={"conv": "gpu"})


def test_plans_that_mix_memories_are_refused():
    plan = compile_network(SMALL, "opencl").artifact
    from dataclasses import replace

    first, second, *rest = plan.plan.steps
    assert isinstance(first, CopyStep) and isinstance(second, GridStep)
    wrong = replace(first, outputs=("x",), inputs=("x",))
    with pytest.raises(ArtifactError, match=r"x must be a value computed once, got another$"):
        replace(plan, plan=replace(plan.plan, steps=(wrong, second, *rest))).check()
    arguments = ("x", *second.arguments[1:])
    wrong = replace(second, inputs=("x",), arguments=arguments)
    with pytest.raises(ArtifactError, match=r"x must be in the memory of the GPU, got a value in another memory$"):
        replace(plan, plan=replace(plan.plan, steps=(first, wrong, *rest))).check()
    moved = replace(plan.plan.values["r@gpu"], offset=plan.plan.values["x@gpu"].offset)
    with pytest.raises(ArtifactError, match=r"r@gpu must share no bytes with x@gpu, live at one step$"):
        replace(plan, plan=replace(plan.plan, values={**plan.plan.values, "r@gpu": moved})).check()


def choices(devices, count):
    return st.lists(st.sampled_from(devices), min_size=count, max_size=count)


@pytest.mark.long
@given(choices(["cpu", "gpu"], len(NODES)))
@settings(max_examples=6, deadline=None, derandomize=True)
def test_any_placement_of_floats_agrees_with_the_cpu(devices):
    place = dict(zip(NODES, devices, strict=True))
    model = compile_network(SMALL, "opencl", place=place)
    np.testing.assert_allclose(model(X), vdla.compile(SMALL, "host")(X), rtol=1e-5, atol=1e-6)
    assert {name: device for name, device in devices_of(model).items() if name in place}.items() <= place.items()


@pytest.mark.long
@given(choices(["vdla", "cpu", "gpu"], 8))
@settings(max_examples=3, deadline=None, derandomize=True)
def test_any_placement_of_integers_on_three_devices_is_exact(devices):
    names = ("conv1", "conv2", "pool", "conv3", "conv4", "add", "average", "logits")
    model, inputs, wanted = digits()
    with compile_network(model, "tiny", gpu="opencl", place=dict(zip(names, devices, strict=True))) as compiled:
        found = compiled.run(inputs).outputs
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
