# SPDX-License-Identifier: Apache-2.0
"""Elements that are looked up at places that depend on inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.integer_layers import IntegerLayers

import vdla
from vdla import Config, te
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.extension_run import _results_of_stage
from vdla.compiler.certificates.network_certificate import certify_network
from vdla.compiler.certificates.symbols import CertificateError, Symbols, numbers, unknowns
from vdla.compiler.extensions import extend
from vdla.compiler.graph import Graph, Node
from vdla.compiler.map import stage_table
from vdla.hardware.isa import COL, Emit, StagedEmit, with_fields
from vdla.hardware.program import Program
from vdla.networks import gallery
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network

EXAMPLES = Path(__file__).parents[3] / "examples"
LUT, HARD_SWISH = EXAMPLES / "look_up_table" / "lut.py", EXAMPLES / "hard_swish" / "hard_swish.py"
TABLE = np.arange(16) * 7 % 13


def looked_up(content: np.ndarray, shape: tuple[int, ...], move: int = 8, name: str = "x") -> Symbols:
    """Elements of a table of a shape at the place of eight inputs of int4."""
    x, table = te.placeholder((8,), "int4", "x"), te.placeholder(shape, "int8", "table")

    def element(i: te.Value) -> te.Value:
        at = te.cast("int32", x[i]) + move
        return table[at] if len(shape) == 1 else table[at // shape[1], at % shape[1]]

    fn = te.create_function([x, table], [te.compute((8,), element, "y")], "look_up")
    inputs = {"x": unknowns(name, (8,), "int4", 0), "table": numbers(content.reshape(shape))}
    return evaluate(fn, inputs)["y"]


def test_a_place_in_rows_is_that_in_the_flat_table() -> None:
    flat = looked_up(TABLE, (16,))
    assert len(set(flat["value"].tolist())) == 8
    for shape in ((4, 4), (2, 8)):
        assert looked_up(TABLE, shape)["value"].tolist() == flat["value"].tolist()
    for other in (looked_up(TABLE[::-1], (16,)), looked_up(TABLE, (16,), name="z")):
        assert not (other["value"] == flat["value"]).any()


def test_a_known_place_is_an_element() -> None:
    x, table = te.placeholder((16,), "int8", "x"), te.placeholder((16,), "int8", "table")
    fn = te.create_function([x, table], [te.compute((16,), lambda i: table[te.cast("int32", x[i])], "y")], "look_up")
    order = np.arange(16)[::-1]
    assert evaluate(fn, {"x": numbers(order), "table": numbers(TABLE)})["y"]["low"].tolist() == TABLE[order].tolist()


def test_a_place_that_may_be_outside_is_refused() -> None:
    with pytest.raises(CertificateError) as error:
        looked_up(TABLE, (16,), move=7)
    assert "an index that depends on inputs must be inside the shape [16] for all inputs, got one of table" in str(
        error.value
    )


def network(table: np.ndarray) -> Model:
    """A convolution whose results are looked up on their way out of the machine."""
    made = IntegerLayers(3, (1, 6, 5, 6))
    made.layer("conv")
    graph: Graph = made.graph()
    (source,) = graph.outputs
    node = Node("vdla.QTable", (source,), ("t",), {"table": table})
    types = {**graph.types, "t": graph.types[source]}
    graph = replace(graph, nodes=(*graph.nodes, node), outputs=("t",), types=types)
    machine = extend(Config.preset("tiny"), str(LUT))
    return compile_network(graph, machine, place={source: "vdla", "t": "vdla"})


def test_a_network_with_a_table_is_certified_and_another_table_is_not() -> None:
    table = (np.arange(256) * 11 % 251 - 125).astype(np.int8)
    one, other = network(table), network(np.roll(table, 1))
    assert one.artifact.programs[0].config.stage is not None
    assert certify_network(one).holds
    mixed = Model(other.artifact, expressions=lambda: one.expressions)
    assert "differs" in str(certify_network(mixed).regions[0])


def swished(words: Callable[[Program], Program] = lambda program: program) -> Model:
    """A network whose hard-swishes a stage computes; `words` changes its program."""
    machine = extend(Config.preset("pynq_z1"), str(HARD_SWISH))
    made = compile_network(gallery.swishes(image=6, depth=2), machine)
    programs = tuple(map(words, made.artifact.programs))
    return Model(replace(made.artifact, programs=programs), expressions=lambda: made.expressions)


def test_the_arithmetic_of_a_stage_is_the_table_of_its_results() -> None:
    config = extend(Config.preset("pynq_z1"), str(HARD_SWISH))
    table = _results_of_stage(config)
    assert table is not None and table.tolist() == stage_table(config).tolist()
    assert certify_network(swished()).holds


def test_a_stage_of_neighbours_is_no_table() -> None:
    def turned(config: Config) -> vdla.EmitStage:
        x = te.placeholder((config.batch, config.block_out), config.out_dtype, "x")
        y = te.compute(x.shape, lambda b, o: x[b, config.block_out - 1 - o], "y")
        return vdla.EmitStage(name="turned", doc="Turns entries.", output=y, scopes={"x": "out", "y": "out"})

    assert _results_of_stage(extend(Config.preset("tiny"), turned)) is None


def test_results_that_miss_their_stage_are_wrong() -> None:
    def without_stage(program: Program) -> Program:
        emit = program.columns[:, COL["emit"]]
        emit = np.where(emit == StagedEmit.STAGE, Emit.REQUANT, emit)
        return replace(program, words=with_fields(program.config, program.words, {"emit": emit}))

    assert "region 1: differs: " in str(certify_network(swished(without_stage)).regions[0])


def test_the_arithmetic_of_a_stage_needs_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the stage had none: its functions of 8 bits are compared by their results."""
    monkeypatch.setattr("vdla.compiler.certificates.extension_run._results_of_stage", lambda config: None)
    assert certify_network(swished()).holds


def test_another_form_of_a_result_is_neither_certified_nor_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the arithmetic of the stage were none of the forms that lemmas or tables know."""
    monkeypatch.setattr("vdla.compiler.certificates.small_functions.MOST_VALUES", 0)
    monkeypatch.setattr("vdla.compiler.certificates.extension_run._results_of_stage", lambda config: None)
    (region,) = certify_network(swished()).regions
    rule = "results of extensions must have a form that a lemma shows to be that of the operator"
    assert str(region).startswith("region 1: not certified: vdla.Q")
    assert f"{rule}, got another, equal for random inputs: vdla.Q" in str(region)


def test_large_programs_are_not_compared_by_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.compiler.certificates.region_certificate.MOST_BY_TABLES", 100)
    monkeypatch.setattr("vdla.compiler.certificates.extension_run._results_of_stage", lambda config: None)
    (region,) = certify_network(swished()).regions
    rule = "results of extensions must have a form that a lemma shows to be that of the operator"
    got = "got another, equal for random inputs, in "
    assert f"region 1: not certified: {rule}, {got}" in str(region)
    assert " iterations, which tables decide in programs of at most 100 iterations: vdla.Q" in str(region)
