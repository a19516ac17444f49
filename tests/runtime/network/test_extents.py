# SPDX-License-Identifier: Apache-2.0
"""Models for inputs of several shapes: a plan for each, one set of constants and kernels."""

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.open_network import open_network

from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.artifact import check_variants
from vdla.runtime.executor.errors import ArtifactError, ExecutorError, ModelError
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import KernelStep
from vdla.runtime.network.compile_network import compile_network

NETWORK = NETWORKS["digits"]


def images(count: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, 1, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    path = tmp_path_factory.mktemp("models") / "digits.vdla"
    compile_network(NETWORK.build(batch="batch"), extents={"batch": (1, 3, 8)}).save(path)
    return Model.load(path)


@pytest.mark.sampled
@pytest.mark.parametrize("count", [3, 1, 8, 3])
def test_each_batch_runs_its_plan(model, count):
    single = compile_network(NETWORK.build(batch=count))
    result = model.run({"image": images(count)})
    assert result.plan.values["image"].shape == (count, 1, 8, 8)
    assert all(isinstance(run.step, KernelStep) for run in result.steps)
    for name, array in single.run({"image": images(count)}).outputs.items():
        assert np.array_equal(result.outputs[name], array)
    assert np.array_equal(model(images(count)), result.outputs["logits"])


def test_weights_are_kept_once(model):
    single = compile_network(NETWORK.build(batch=1)).artifact
    weights = sum(array.nbytes for array in single.constants.values())
    assert sum(array.nbytes for array in model.artifact.constants.values()) < 2 * weights
    assert len(model.artifact.plans) == 3


def test_a_model_without_numbers_says_which_would_make_kernels():
    artifact = compile_network(NETWORK.build(batch="batch")).artifact
    placed = [op for step in artifact.plan.steps for op in step.placement.operators]
    assert {op.change for op in placed} == {"numbers for batch, as in --extent batch=1"}


@pytest.mark.parametrize("target", ["host", "tiny"])
def test_the_numbers_that_are_advised_make_kernels(target):
    model, extents = open_network([None, 2, "?", "?"]), {}
    placed = [op for step in compile_network(model, target).artifact.plan.steps for op in step.placement.operators]
    advice = "numbers for x.0, x.2, x.3, as in --extent x.0=1 x.2=1 x.3=1"
    assert all(op.change.startswith(advice) for op in placed)
    assert placed[0].reason.startswith("extents must be known, got float32[x.0, 2, x.2, x.3] for x")
    for setting in re.findall(r"(\S+)=1", placed[0].change):
        extents[setting] = 6
    made = compile_network(model, target, extents=extents)
    assert [step.placement.device for step in made.artifact.plan.steps] == ["cpu", "numpy"]
    assert "--extent" not in made.artifact.plan.steps[-1].placement.operators[0].change
    assert made(np.ones((6, 2, 6, 6), np.float32))[0].shape == (6, 2, 4, 4)


def test_other_shapes_are_refused_with_those_there_are(model):
    shapes = " or ".join(f"image[{count}, 1, 8, 8]" for count in (1, 3, 8))
    message = f"model digits: inputs must have the shapes {shapes}, got image[5, 1, 8, 8]"
    message += "; compile the model with --shape image=5x1x8x8 as well to add them"
    with pytest.raises(ExecutorError, match=f"^{re.escape(message)}$"):
        model(images(5))
    message = "model digits: image must be an array float32 of any shape, got float64[1, 1, 8, 8] "
    message += '(image.astype("float32") converts it)'
    with pytest.raises(ExecutorError, match=f"^{re.escape(message)}$"):
        model(images(1).astype(np.float64))


def test_a_quantised_model_is_calibrated_once():
    made = compile_network(
        NETWORK.build(batch="batch"), "tiny", extents={"batch": (2, 1)}, calibration=images(16), method="minmax"
    )
    with made:
        both = made(images(2))
        for at in range(2):
            assert np.array_equal(made(images(2)[at : at + 1]), both[at : at + 1])


WRONG = [
    ({"batch": (1, 1)}, "compile: extents of batch must be different integers from 0, got (1, 1)"),
    ({"batch": ()}, "compile: extents of batch must be different integers from 0, got ()"),
    ({"batch": -1}, "compile: extents of batch must be different integers from 0, got -1"),
    ({"batch": (1, "2")}, "compile: extents of batch must be different integers from 0, got (1, '2')"),
    ({"batch": range(1, 18)}, "compile: extents must give at most 16 plans, got 17"),
]


@pytest.mark.parametrize(("extents", "message"), WRONG)
def test_wrong_extents(extents, message):
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        compile_network(NETWORK.build(batch="batch"), extents=extents)


def test_plans_that_do_not_go_together_are_refused(model):
    artifact = model.artifact
    plan, (second, *_) = artifact.plan, artifact.variants
    values = {**second.values, "image": replace(second.values["image"], dtype="int32")}
    cases = {
        "plan digits: variants must differ in the shapes of inputs, got image[1, 1, 8, 8] twice": plan,
        "plan digits: outputs of all variants must be logits, got image": replace(second, outputs=("image",)),
        "plan digits: image must be float32 in all variants, got int32": replace(second, values=values, steps=(),
                                                                               outputs=plan.outputs),
    }  # fmt: skip
    for message, variant in cases.items():
        with pytest.raises(ArtifactError, match=f"^{re.escape(message)}$"):
            check_variants((plan, variant))
    with pytest.raises(ArtifactError, match=r"twice$"):
        replace(artifact, variants=(plan,)).check()
