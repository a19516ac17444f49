# SPDX-License-Identifier: Apache-2.0
"""Mutated ONNX models are read or refused; faults of a reader are found and counted."""

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.hostile_deaths import dying
from helpers.opencl_functions import needs_opencl
from onnx import TensorProto, helper, numpy_helper

from vdla.benchmarks.hostile import SOURCES, run
from vdla.compiler.graph.onnx import OnnxError, import_model
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import Step
from vdla.verification.hostile.artifacts import ARTIFACTS, hostile_artifact
from vdla.verification.hostile.artifacts import corpus as artifact_corpus
from vdla.verification.hostile.onnx_models import corpus, hostile_model
from vdla.verification.hostile.source import HostileSource, run_case


@pytest.mark.filterwarnings("ignore::vdla.compiler.graph.onnx.errors.OnnxWarning")
@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_mutated_models_are_read_or_refused(first):
    case = SOURCES["onnx"].case
    outcomes = [run_case(case, seed) for seed in range(2_000_000 + first, 2_000_250 + first)]
    assert {seed: fault for outcome in outcomes for seed, fault in outcome.faults.items()} == {}
    words = {word for outcome in outcomes for word in outcome.words}
    assert words == {"refused", "imported", "evaluated"}


def test_mutated_files_of_tensorflow_lite_are_read_or_refused():
    pytest.importorskip("tflite")
    outcomes = [run_case(SOURCES["tflite"].case, seed) for seed in range(3_000_000, 3_000_500)]
    assert {seed: fault for outcome in outcomes for seed, fault in outcome.faults.items()} == {}
    words = {word for outcome in outcomes for word in outcome.words}
    assert words >= {"refused", "evaluated"}


@pytest.mark.slow
def test_mutated_artifacts_are_loaded_or_refused():
    """In a process of its own, whose memory is bounded."""
    result = run(sources=[replace(ARTIFACTS, count=300)], workers=1, seed=7)
    assert result.receipt["crashes"] == {"artifact": {}}
    (row,) = result.rows
    assert all(row[word] > 5 for word in ("refused", "ran", "laid out"))


@needs_opencl
def test_artifacts_have_every_kind_of_step():
    loaded = [Artifact.from_bytes(content, "corpus") for content in artifact_corpus()]
    assert {type(step) for artifact in loaded for step in artifact.plan.steps} == set(Step.__args__)
    for artifact in loaded:
        with Model(artifact) as model:
            model.run({name: np.zeros(value.shape, value.dtype) for name, value in model.inputs.items()})
    assert hostile_artifact(7) == hostile_artifact(7) != hostile_artifact(8)


def test_the_corpus_is_sound_and_a_seed_gives_one_model():
    for content in corpus():
        assert import_model(content).nodes
    assert hostile_model(7) == hostile_model(7) != hostile_model(8)


def test_crashes_are_counted():
    result = run(sources=[HostileSource("test", dying, 4)], workers=1)
    assert result.figures == {"cases": 4, "crashes": 2}
    assert result.receipt["crashes"]["test"] == {
        "1": "the process must survive the case for 20 s, got its death",
        "2": "KeyError: 'q'",
    }


def model(tensor=None, node=None, extent=2):
    """A model of one node that is broken in one way."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [extent])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    nodes = [node or helper.make_node("Add", ["x", "w"], ["y"])]
    weight = tensor or numpy_helper.from_array(np.ones(2, np.float32), "w")
    return helper.make_model(helper.make_graph(nodes, "broken", [x], [y], [weight]))


def tensor(dims, data, kind=TensorProto.FLOAT):
    made = TensorProto(name="w", data_type=kind, raw_data=data)
    made.dims.extend(dims)
    return made


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (model(extent=1 << 41), "value x: extents must be those of at most 2^40 elements, got [2199023255552]"),
        (
            model(tensor([1 << 40, 1 << 20], bytes(8))),
            "tensor w: the data must fill it (type 1, extents [1099511627776, 1048576]), got: *",
        ),
        (model(tensor([-2], bytes(8))), "tensor w: extents must not be negative, got [-2]"),
        (model(tensor([2], bytes(8), 99)), "tensor w: the data must fill it (type 99, extents [2]), got: *"),
        (
            model(node=helper.make_node("Add", ["x"], ["y"])),
            "broken: Add y: the number of inputs must be 2, got 1",
        ),
        (
            model(node=helper.make_node("Add", ["x", ""], ["y"])),
            "broken: Add y: input B must be given, got none",
        ),
        (
            model(node=helper.make_node("Concat", ["x", "w"], ["y"], axis="no")),
            "broken: Concat y: attribute axis must be of type INT, got STRING",
        ),
        (
            model(node=helper.make_node("Concat", ["x", "w"], ["y"])),
            "broken: Concat y: attribute axis must be given, got none",
        ),
        (
            model(node=helper.make_node("Add", ["y", "w"], ["y"])),
            "broken: Add y: inputs must be computed before it, got y, which is computed from itself",
        ),
        (
            model(node=helper.make_node("Relu", ["w"], ["x"])),
            "broken: every value must be defined once, got x twice",
        ),
    ],
)
def test_messages(broken, message):
    pattern = re.escape(message).replace(r"\*", ".*")
    with pytest.raises(OnnxError, match=f"^{pattern}$"):
        import_model(broken)
