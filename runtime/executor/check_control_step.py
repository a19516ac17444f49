# SPDX-License-Identifier: Apache-2.0
"""The rules of If, Loop and Scan: which bodies there are, and how many values go in and come out.

Types and shapes of these values may be known only when the step runs; the executor checks them
where a body has a place for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.plan import ControlStep, Plan, numpy_dtype

_BODIES = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}


def check_control_step(where: str, step: ControlStep) -> None:
    """ArtifactError unless attributes, bodies and numbers of values agree."""
    if step.op not in _BODIES:
        raise ArtifactError(f"{where}: op must be one of {', '.join(_BODIES)}, got {step.op}")
    if step.bodies.keys() != set(_BODIES[step.op]):
        got = ", ".join(step.bodies) or "none"
        raise ArtifactError(f"{where}: bodies must be {', '.join(_BODIES[step.op])}, got {got}")
    fixed = {"If": 1, "Loop": 2}.get(step.op) or _number(where, step, "num_scan_inputs")
    captures = _number(where, step, "captures")
    states = len(step.inputs) - fixed - captures
    if states < 0 or (step.op == "If" and states) or (step.op == "Scan" and not fixed):
        raise ArtifactError(f"{where}: inputs must be {fixed}, states and {captures} captured, got {len(step.inputs)}")
    required = step.inputs[2:] if step.op == "Loop" else step.inputs
    if not all(required):
        raise ArtifactError(f"{where}: inputs must be given, but trips and condition of a Loop, got an absent one")
    for key, body in step.bodies.items():
        _check_body(f"{where}, {key}", step, body, states)
    _check_rows(where, step)
    if step.op == "Scan":
        _check_axes(where, step, fixed, len(step.bodies["body"].outputs) - states)


def _check_body(where: str, step: ControlStep, body: Plan, states: int) -> None:
    inputs = len(step.inputs) - (step.op == "If")
    if len(body.inputs) != inputs:
        raise ArtifactError(f"{where}: inputs must be {inputs}, got {len(body.inputs)}")
    conditions = int(step.op == "Loop")
    results = len(body.outputs) - conditions
    if results < max(states, len(step.outputs)):
        least = conditions + max(states, len(step.outputs))
        raise ArtifactError(f"{where}: outputs must be at least {least}, got {len(body.outputs)}")


def _check_rows(where: str, step: ControlStep) -> None:
    count = 0 if step.op == "If" else len(step.bodies["body"].outputs)
    if len(step.rows) != count:
        raise ArtifactError(f"{where}: rows must be {count}, got {len(step.rows)}")
    for row in step.rows:
        if row.shape is None or any(extent < 0 for extent in row.shape):
            raise ArtifactError(f"{where}: rows must have extents from 0, got {row.shape}")
        numpy_dtype(row.dtype)


def _check_axes(where: str, step: ControlStep, scanned: int, rows: int) -> None:
    """The axes and directions of a Scan, where given."""
    for way, count in (("input", scanned), ("output", rows)):
        for what in ("axes", "directions"):
            name = f"scan_{way}_{what}"
            numbers = step.attributes.get(name, (0,) * count)
            if not isinstance(numbers, tuple) or len(numbers) != count or not all(_integers(numbers)):
                raise ArtifactError(f"{where}: {name} must be {count} integers, got {numbers!r}")


def _integers(values: tuple[Any, ...]) -> Iterator[bool]:
    return (type(value) is int for value in values)


def _number(where: str, step: ControlStep, name: str) -> int:
    value = step.attributes.get(name)
    if type(value) is not int or value < 0:
        raise ArtifactError(f"{where}: {name} must be an integer from 0, got {value!r}")
    return value
