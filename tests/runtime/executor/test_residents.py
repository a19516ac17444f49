# SPDX-License-Identifier: Apache-2.0
"""Networks whose programs keep tensors on the device, at places that values of the plan choose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.plans import small_artifact
from helpers.resident_programs import keys_program, row_offset

from vdla.hardware.config import Config
from vdla.hardware.program import ProgramError
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.errors import ArtifactError, ExecutorError
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import Placement, Plan, PlannedValue, ProgramStep

TINY = Config.preset("tiny")
GROUPS, BLOCKS = 2, 3
VALUES = {
    "key": PlannedValue("int8", (BLOCKS, 4), 0),
    "query": PlannedValue("int8", (BLOCKS, 4), 64),
    "place": PlannedValue("int64", (1,), 128),
    "scores": PlannedValue("int32", (GROUPS, 4), 192),
}
STEP = ProgramStep(
    name="step",
    program=0,
    tensors={name: name for name in ("key", "query", "scores")},
    lines=(),
    inputs=("key", "query", "place"),
    outputs=("scores",),
    placement=Placement("vdla", ()),
    offsets={"row": "place"},
)


def artifact(step: ProgramStep = STEP, **values: PlannedValue) -> Artifact:
    """A network of one program, with one plan for each length of the cache."""
    plan = Plan(
        name="cached", inputs=("key", "query", "place"), outputs=("scores",), values=VALUES | values, steps=(step,),
        arena_bytes=256, arena_bytes_without_reuse=256,
    )  # fmt: skip
    return Artifact(plan=plan, constants={}, programs=(keys_program(TINY, GROUPS, BLOCKS),), cpu=small_artifact().cpu)


def step_of(model, rng, known, place):
    """Run a step of the model; its scores and the expected ones."""
    key, query = (rng.integers(-128, 128, (BLOCKS, 4), np.int8) for _ in range(2))
    known[place] = key.ravel()
    offset = np.array([row_offset(TINY, place, BLOCKS)], np.int64)
    result = model.run({"key": key, "query": query, "place": offset})
    return result.outputs["scores"].ravel(), known @ query.ravel().astype(int)


@pytest.mark.parametrize("device", ["sim", pytest.param("rtl", marks=pytest.mark.rtl)])
def test_a_saved_network_appends_to_its_cache_in_place(device, tmp_path):
    artifact().check().save(tmp_path / "cached.vdla")
    rng, known = np.random.default_rng(0), np.zeros((8, 12), int)
    with Model.load(tmp_path / "cached.vdla", device) as model:
        for place in (0, 1, 5, 1):
            got, expected = step_of(model, rng, known, place)
            assert (got == expected).all()
        assert (model.executor.residents.read("keys").swapaxes(1, 2).reshape(8, 12) == known).all()
        assert model.executor.damage(STEP) is None
        model.executor.residents.restart()
        assert not model.executor.residents.read("keys").any()


def test_a_place_beyond_the_cache_is_refused():
    with Model(artifact()) as model, pytest.raises(ProgramError) as error:
        step_of(model, np.random.default_rng(0), np.zeros((12, 12), int), 8)
    assert str(error.value) == "program keys: offset of row in keys must be a multiple of 4 from 0 to 60, got 96"


@pytest.mark.parametrize(
    ("step", "values", "message"),
    [
        (replace(STEP, offsets={}), {}, "offsets must be of row, as of keys, got none"),
        (
            replace(STEP, offsets={"row": "place", "keys": "place"}),
            {},
            "offsets must be of row, as of keys, got row, keys",
        ),
        (STEP, {"place": PlannedValue("float32", (1,), 128)}, "place must be one int32 or int64, got float32[1]"),
        (STEP, {"place": PlannedValue("int64", (2,), 128)}, "place must be one int32 or int64, got int64[2]"),
        (
            replace(STEP, inputs=("key", "query")),
            {},
            "place must be an input or output of the step, got key, query, scores",
        ),
        (replace(STEP, offsets={"row": "z"}), {}, "values must include z, got no such value"),
    ],
)
def test_offsets_of_a_plan_are_checked(step, values, message):
    with pytest.raises(ArtifactError) as error:
        artifact(step, **values).check()
    assert str(error.value) == f"plan cached, step step: {message}"


def test_a_network_without_resident_tensors_has_none():
    with Model(small_artifact(), "sim") as model, pytest.raises(ExecutorError) as error:
        _ = model.executor.residents
    assert str(error.value).endswith("programs must have resident tensors on a device, got none to read")
