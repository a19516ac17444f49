# SPDX-License-Identifier: Apache-2.0
"""Plans with bodies: rules of If, Loop and Scan that a changed plan breaks."""

import re
from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, TensorType, check_graph
from vdla.compiler.target import Target
from vdla.runtime.executor.artifact import ARTIFACT_FILE, Artifact
from vdla.runtime.executor.errors import ArtifactError, ExecutorError
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import ControlStep, PlannedValue
from vdla.runtime.network.build import build_artifact
from vdla.support.sealed_file import PREFIX_BYTES

KIND, FLAG = TensorType("float32", (3,)), TensorType("bool", ())


def scan_graph() -> Graph:
    """y = the last of h + x[t], r = all of them; x is [4, 3]."""
    body = Graph(
        "body",
        ("bh", "bx"),
        ("bn", "bn"),
        (Node("Add", ("bh", "bx"), ("bn",)),),
        {},
        dict.fromkeys(("bh", "bx", "bn"), KIND),
    )
    node = Node("Scan", ("h", "x"), ("y", "r"), {"body": body, "num_scan_inputs": 1, "captures": 0})
    wide = TensorType("float32", (4, 3))
    return check_graph(Graph("g", ("h", "x"), ("y", "r"), (node,), {}, {"h": KIND, "y": KIND, "x": wide, "r": wide}))


def if_graph() -> Graph:
    """y = -x or x."""
    bodies = {
        key: Graph(key, (f"{key}.x",), (f"{key}.y",), (Node(op, (f"{key}.x",), (f"{key}.y",)),), {},
                   {f"{key}.x": KIND, f"{key}.y": KIND})
        for key, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }  # fmt: skip
    node = Node("If", ("c", "x"), ("y",), {**bodies, "captures": 1})
    return check_graph(Graph("g", ("c", "x"), ("y",), (node,), {}, {"c": FLAG, "x": KIND, "y": KIND}))


def artifact_of(graph: Graph) -> Artifact:
    return build_artifact(check_graph(graph), Target.named("host"))


@pytest.fixture(scope="module")
def artifacts() -> dict[str, Artifact]:
    return {"scan": artifact_of(scan_graph()), "if": artifact_of(if_graph())}


def changed(artifact: Artifact, **changes) -> Artifact:
    """The artifact with another control step."""
    (step,) = artifact.plan.steps
    return replace(artifact, plan=replace(artifact.plan, steps=(replace(step, **changes),)))


def test_the_artifacts_run(artifacts):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    last, rows = Model(artifacts["scan"])(np.zeros(3, np.float32), x)
    assert np.array_equal(rows, np.cumsum(x, axis=0)) and np.array_equal(last, rows[-1])
    loaded = Artifact.from_bytes(artifacts["if"].to_bytes(), "f")
    assert loaded.plan == artifacts["if"].plan
    assert np.array_equal(Model(loaded)(np.array(True), x[1]), -x[1])


def body_with(**changes):
    """A change of the body of a Scan."""
    return lambda step: {"bodies": {"body": replace(step.bodies["body"], **changes)}}


WRONG = [
    ("if", lambda step: {"op": "While"}, "op must be one of If, Loop, Scan, got While"),
    ("if", lambda step: {"bodies": {}}, "bodies must be then_branch, else_branch, got none"),
    ("if", lambda step: {"attributes": {"captures": 2}}, "inputs must be 1, states and 2 captured, got 2"),
    ("if", lambda step: {"attributes": {"captures": 0}}, "inputs must be 1, states and 0 captured, got 2"),
    ("if", lambda step: {"attributes": {}}, "captures must be an integer from 0, got None"),
    ("if", lambda step: {"inputs": ("c", "")},
     "inputs must be given, but trips and condition of a Loop, got an absent one"),
    ("if", lambda step: {"rows": (PlannedValue("float32", (3,)),)}, "rows must be 0, got 1"),
    ("scan", lambda step: {"rows": step.rows[:1]}, "rows must be 2, got 1"),
    ("scan", lambda step: {"rows": (PlannedValue("float32", (-1,)),) * 2}, "rows must have extents from 0, got (-1,)"),
    ("scan", lambda step: {"attributes": step.attributes | {"scan_input_axes": (0, 1)}},
     "scan_input_axes must be 1 integers, got (0, 1)"),
    ("scan", lambda step: {"attributes": step.attributes | {"num_scan_inputs": 0}},
     "inputs must be 0, states and 0 captured, got 2"),
    ("scan", lambda step: {"attributes": step.attributes | {"num_scan_inputs": True}},
     "num_scan_inputs must be an integer from 0, got True"),
    ("scan", lambda step: {"bodies": {"then_branch": step.bodies["body"]}}, "bodies must be body, got then_branch"),
    ("scan", body_with(inputs=("bh",)), "body: inputs must be 2, got 1"),
    ("scan", body_with(outputs=("bn",)), "body: outputs must be at least 2, got 1"),
    ("scan", body_with(inputs=("bh", "q")), "body: values must include q, got no such value"),
    ("scan", body_with(arena_bytes=64),
     "body: {value} must lie at a multiple of 64 in the arena of 64 bytes, got {range}"),
    ("scan", body_with(steps=()), "body: output bn must be computed, got no such step"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), WRONG)
def test_steps_that_break_a_rule(artifacts, name, change, message):
    (step,) = artifacts[name].plan.steps
    made = changed(artifacts[name], **change(step))
    mark = "," if message.startswith("body: ") else ":"
    wanted = re.escape(f"plan g, step {step.name}{mark} {message}")
    wanted = wanted.replace(r"\{value\}", r"\w+").replace(r"\{range\}", r"[\d.]+")
    with pytest.raises(ArtifactError, match=f"^{wanted}$"):
        made.check()


def branches(prefix: str, depth: int) -> tuple[Node, dict[str, TensorType]]:
    """An If of `depth` more Ifs in its first branch, and the types of its values."""
    kinds = {f"{prefix}c": FLAG, f"{prefix}x": KIND, f"{prefix}y": KIND}
    bodies = {}
    for key, inner in (("then_branch", depth - 1), ("else_branch", 0)):
        own = f"{prefix}{key[0]}"
        names = (f"{own}c", f"{own}x")
        node, found = branches(own, inner) if inner else (Node("Neg", (f"{own}x",), (f"{own}y",)), None)
        types = found or {f"{own}c": FLAG, f"{own}x": KIND, f"{own}y": KIND}
        bodies[key] = Graph(key, names, (f"{own}y",), (node,), {}, types)
    inputs = (f"{prefix}c", f"{prefix}c", f"{prefix}x")
    return Node("If", inputs, (f"{prefix}y",), {**bodies, "captures": 2}), kinds


def nested(depth: int) -> Artifact:
    node, kinds = branches("", depth)
    return artifact_of(Graph("g", ("c", "x"), ("y",), (node,), {}, kinds))


def test_bodies_are_nested_to_a_limit():
    x = np.ones(3, np.float32)
    assert np.array_equal(Model(nested(16))(np.array(True), x), -x)
    with pytest.raises(ArtifactError, match=r", then_branch: bodies must be nested at most 16 deep, got more$"):
        nested(17)


def test_a_result_that_has_not_its_planned_type_is_an_error():
    """The types of a graph do not hold: a NumPy function gives more elements than have room."""
    sizes = TensorType("int64", (1,))
    bodies = {}
    for key in ("then_branch", "else_branch"):
        x, n, y = (f"{key}.{name}" for name in "xny")
        bodies[key] = Graph(key, (x, n), (y,), (Node("Tile", (x, n), (y,)),), {}, {x: KIND, n: sizes, y: KIND})
    node = Node("If", ("c", "x", "n"), ("y",), {**bodies, "captures": 2})
    types = {"c": FLAG, "x": KIND, "n": sizes, "y": KIND}
    made = artifact_of(Graph("g", ("c", "x", "n"), ("y",), (node,), {}, types))
    model, x = Model(made), np.ones(3, np.float32)
    assert np.array_equal(model(np.array(True), x, np.array([1])), x)
    message = "model then_branch, step then_branch.y: then_branch.y must have the extents [3], got [6]"
    with pytest.raises(ExecutorError, match=f"^{re.escape(message)}$"):
        model(np.array(True), x, np.array([2]))


def test_a_name_is_a_constant_or_a_value(artifacts):
    artifact = artifacts["if"]
    with pytest.raises(ArtifactError, match=r"^plan g: x must be a constant or a value of the plan, got both$"):
        replace(artifact, constants={"x": np.zeros(3, np.float32)}).check()


def test_random_changes_of_bodies_are_refused_or_valid(artifacts):
    """Mutants of the manifest under a valid checksum: most break a rule, none anything else."""
    content = artifacts["scan"].to_bytes()
    manifest, payload = ARTIFACT_FILE.unseal(content, "x")
    members = bytes(payload.take("all", len(content) - PREFIX_BYTES - len(manifest)))
    rng, refused = np.random.default_rng(0), 0
    for _ in range(300):
        text = bytearray(manifest)
        for _ in range(rng.integers(1, 3)):
            text[rng.integers(len(text))] = rng.choice(list(b'0123456789-[]{},":ae'))
        try:
            Artifact.from_bytes(ARTIFACT_FILE.seal(bytes(text), [members]), "f")
        except ArtifactError:
            refused += 1
    assert refused > 200


def test_the_step_is_a_control_step(artifacts):
    (step,) = artifacts["scan"].plan.steps
    assert isinstance(step, ControlStep) and artifacts["scan"].plan.bodies == (step.bodies["body"],)
