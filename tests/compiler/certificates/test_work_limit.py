# SPDX-License-Identifier: Apache-2.0
"""Files that would make a proof run for ever, or take all memory, are refused before they do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.integer_layers import IntegerLayers
from helpers.small_programs import small_gemm

from vdla import Config, te
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.graph_run import NotProvableError, run_graph
from vdla.compiler.certificates.network_certificate import certify_network
from vdla.compiler.certificates.program_run import run_program
from vdla.compiler.certificates.symbols import CertificateError, unknowns
from vdla.compiler.certificates.work_limit import (
    MOST_ELEMENTS,
    MOST_ITERATIONS,
    MOST_OF_WINDOW,
    MOST_STEPS,
    spend,
    work_limit,
)
from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.accelerator import expressions_from_bytes, expressions_to_bytes
from vdla.hardware.isa import COL, Opcode
from vdla.runtime.network.compile_network import compile_network

TOO_LONG = f"certify: at most {MOST_STEPS:,} steps must suffice, got more (a hostile file?)"


def test_a_long_sum_is_refused_before_it_runs() -> None:
    x = te.placeholder((1,), "int32", "x")
    k, n = te.reduce_axis(1 << 30, "k"), te.reduce_axis(1 << 30, "n")
    made = te.create_function([x], [te.compute((1,), lambda i: te.sum(x[i] * 3 + k * n, axis=[k, n]), "y")], "sum")
    given = {"x": unknowns("x", (1,), "int32", 0)}
    with work_limit(), pytest.raises(CertificateError) as caught:
        evaluate(made, given)
    assert str(caught.value) == TOO_LONG


def test_the_steps_of_a_context_are_counted_together() -> None:
    with work_limit(10):
        spend(6, 1)
        with work_limit(10), pytest.raises(CertificateError):  # an inner limit is the outer one
            spend(6, 1)
    spend(1 << 50, 1 << 50)  # outside, nothing is counted


def test_elements_that_no_memory_holds_are_refused() -> None:
    with work_limit(), pytest.raises(CertificateError) as caught:
        spend(0, MOST_ELEMENTS + 1)
    rule = f"certify: at most {MOST_ELEMENTS:,} elements must be needed at once"
    assert str(caught.value) == f"{rule}, got {MOST_ELEMENTS + 1:,}"


def test_an_instruction_with_more_iterations_than_any_needs_is_refused() -> None:
    program, *_ = small_gemm(Config.preset("tiny"))
    gemm = int(np.flatnonzero(program.columns[:, COL["opcode"]] == Opcode.GEMM)[0])
    columns = program.columns.copy()
    columns[gemm, COL["loop0"]] = columns[gemm, COL["loop1"]] = 1 << 14
    hostile = SimpleNamespace(columns=columns, config=program.config, tensors=program.tensors)
    uops = int(columns[gemm, COL["uop_end"]] - columns[gemm, COL["uop_begin"]])
    with work_limit(), pytest.raises(CertificateError) as caught:
        run_program(hostile, {})  # type: ignore[arg-type]  # what it needs of a program
    rule = f"certify: an instruction must have at most {MOST_ITERATIONS:,} iterations"
    assert str(caught.value) == f"{rule}, got {uops << 28:,}"


# --- graphs of files ------------------------------------------------------------------------------


def graph(*kinds: str) -> Graph:
    made = IntegerLayers(3, (1, 6, 5, 6))
    for kind in kinds:
        made.layer(kind)
    return made.graph()


def given(hostile: Graph) -> dict[str, np.ndarray]:
    kinds = {name: hostile.tensor(name) for name in hostile.inputs}
    return {name: unknowns(name, kind.extents, kind.dtype, 0) for name, kind in kinds.items()}


@pytest.mark.parametrize("name", ["pads", "strides", "dilations"])
@pytest.mark.parametrize("value", [MOST_OF_WINDOW + 1, 1 << 62, -(1 << 40)])
def test_a_window_of_no_possible_size_is_refused(name: str, value: int) -> None:
    plain = graph("conv")
    (node,) = plain.nodes
    old = node.attributes[name]
    hostile = plain.replace(nodes=(replace(node, attributes={**node.attributes, name: (value, *old[1:])}),))
    with pytest.raises(NotProvableError) as caught:
        run_graph(hostile, given(hostile))
    rule = f"certify: {name} must be at most {MOST_OF_WINDOW:,}, got {value:,}"
    assert str(caught.value) == f"{node.label}: {rule}"


def test_types_of_a_size_that_no_value_has_are_refused() -> None:
    plain = graph("conv")
    hostile = plain.replace(types={**plain.types, plain.outputs[0]: TensorType("int8", (1 << 20, 1 << 20))})
    with work_limit(), pytest.raises(CertificateError, match="elements must be needed at once, got 1,099,511,"):
        run_graph(hostile, given(plain))
    other = plain.replace(types={**plain.types, plain.outputs[0]: TensorType("int8", (3,))})
    with pytest.raises(NotProvableError, match=r"must have 3 elements, got \d+$"):
        run_graph(other, given(plain))


@pytest.mark.parametrize("name", ["group", "low", "high", "x_zero_point"])
@pytest.mark.parametrize("value", [0, -1, 7, 1 << 62, 1 << 70])
def test_attributes_that_no_operator_has_are_no_crash(name: str, value: int) -> None:
    plain = graph("conv")
    (node,) = plain.nodes
    hostile = plain.replace(nodes=(replace(node, attributes={**node.attributes, name: value}),))
    try:
        run_graph(hostile, given(plain))  # some of them have a meaning, which no program will have
    except NotProvableError as error:
        assert str(error).startswith(f"{node.label}: ")


def padded(node: Node) -> Node:
    """With more padding than any memory holds, if it has some."""
    pads = tuple(1 << 60 for _ in node.attributes.get("pads", ()))
    return replace(node, attributes={**node.attributes, "pads": pads}) if pads else node


def test_a_network_whose_expressions_are_hostile_is_not_certified() -> None:
    plain = graph("conv", "conv")
    model = compile_network(plain, "tiny", place={node.outputs[0]: "vdla" for node in plain.nodes}, certify=False)
    ((expression, *rest),) = expressions_from_bytes(model.expressions, "test")
    wrong = expression.plain.replace(nodes=tuple(map(padded, expression.plain.nodes)))
    stored = expressions_to_bytes([[replace(expression, plain=wrong), *rest]])
    hostile = SimpleNamespace(name="n", artifact=model.artifact, expressions=stored)
    certificate = certify_network(hostile)
    assert not certificate.holds
    assert "pads must be at most" in certificate.regions[0].reason
