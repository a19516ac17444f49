# SPDX-License-Identifier: Apache-2.0
"""Copies among the steps of a plan: before the first reader, once in each direction."""

from __future__ import annotations

from vdla.runtime.executor.plan import GridStep, KernelStep, Placement
from vdla.runtime.network.plan_copies import plan_copies

HERE = Placement("", ())


def step(kind, inputs, outputs):
    return kind(
        name=outputs[0],
        kernel=0,
        arguments=(*inputs, "w", *outputs),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        placement=HERE,
    )


def planned(*steps, outputs, sources=None):
    made = plan_copies(steps, ["x"], outputs, sources or {}, len)
    return made, [f"{type(s).__name__[0]} {' '.join(s.inputs)} > {' '.join(s.outputs)}" for s in made.steps]


def test_a_value_crosses_once_however_many_read_it():
    made, lines = planned(
        step(GridStep, ["x"], ["a"]),
        step(GridStep, ["x", "a"], ["b"]),
        step(KernelStep, ["b", "x"], ["c"]),
        step(KernelStep, ["b", "c"], ["d"]),
        step(GridStep, ["d", "b"], ["e"]),
        outputs=["e", "b"],
    )
    assert lines == [
        "C x > x@gpu",
        "G x@gpu > a@gpu",
        "G x@gpu a@gpu > b@gpu",
        "C b@gpu > b",
        "K b x > c",
        "K b c > d",
        "C d > d@gpu",
        "G d@gpu b@gpu > e@gpu",
        "C e@gpu > e",
    ]
    assert made.steps[1].arguments == ("x@gpu", "w", "a@gpu")  # a constant keeps its name
    assert made.steps[3].placement.nbytes == 1
    assert made.on_device == {f"{name}@gpu": name for name in "xabde"}


def test_a_view_is_a_view_of_the_copy():
    made, lines = planned(
        step(GridStep, ["x"], ["a"]),
        step(GridStep, ["flat"], ["b"]),
        step(KernelStep, ["flat"], ["c"]),
        outputs=["b", "c"],
        sources={"flat": "a"},
    )
    assert lines == [
        "C x > x@gpu",
        "G x@gpu > a@gpu",
        "G flat@gpu > b@gpu",
        "C a@gpu > a",
        "K flat > c",
        "C b@gpu > b",
    ]
    assert made.aliases == {"flat@gpu": "a@gpu"}


def test_names_of_the_model_that_look_like_those_of_the_gpu():
    made, lines = planned(step(GridStep, ["x"], ["x@gpu"]), outputs=["x@gpu"])
    assert lines == ["C x > x@gpu_", "G x@gpu_ > x@gpu@gpu", "C x@gpu@gpu > x@gpu"]
    assert made.on_device == {"x@gpu_": "x", "x@gpu@gpu": "x@gpu"}


def test_without_a_gpu_nothing_changes():
    steps = (step(KernelStep, ["x"], ["a"]),)
    assert planned(*steps, outputs=["a"])[0].steps == steps
