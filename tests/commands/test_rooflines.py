"""No point of a roofline lies above the roof, and each is where its table says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from helpers.quantiser import to_qdq
from onnx import helper, numpy_helper

import vdla
from vdla import te
from vdla.benchmarks.networks.registry import NETWORKS
from vdla.commands.profile_page import operators_roofline
from vdla.commands.verdict_page import verdict_roofline
from vdla.commands.verdict_tables import layer_rows
from vdla.hardware.config import Config
from vdla.runtime.executor import NetworkProfile, profile_of
from vdla.runtime.network import compile_network
from vdla.runtime.verdict import EvaluatedLayer, evaluate, layer_of, point_of

SVG = "{http://www.w3.org/2000/svg}"
TINY = Config.preset("tiny")
DRAWN = 0.02  # coordinates have two digits

Place = tuple[float, float]


def drawn(svg: str) -> tuple[dict[str, list[Place]], list[tuple[str, str, Place]]]:
    """The roofs by class; class, title and place of each point."""
    tree = ElementTree.fromstring(svg)
    roofs = {}
    for line in tree.iter(f"{SVG}polyline"):
        pairs = (pair.split(",") for pair in line.get("points", "").split())
        roofs[line.get("class", "")] = [(float(x), float(y)) for x, y in pairs]
    circles = []
    for each in tree.iter(f"{SVG}circle"):
        place = (float(each.get("cx", "")), float(each.get("cy", "")))
        circles.append((each.get("class", ""), str(each.findtext(f"{SVG}title")), place))
    return roofs, circles


def require_below(roof: list[Place], title: str, place: Place) -> None:
    """Coordinates grow downwards; a roof rises in a straight line on logarithmic axes."""
    (x, y), (at, height) = place, zip(*roof, strict=True)
    assert x >= at[0] - DRAWN, title
    assert y >= np.interp(x, at, height) - DRAWN, title


# --- profiles -------------------------------------------------------------------------------------


def ahead() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A layer that computes long, and one whose weights are loaded meanwhile."""
    rng = np.random.default_rng(0)
    shapes = {"w": (64, 64, 3, 3), "v": (256, 64, 1, 1)}
    weights = [numpy_helper.from_array(rng.normal(0, 0.1, shape).astype("f4"), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "long"),
        helper.make_node("Conv", ["a", "v"], ["y"], "wide", strides=[7, 7]),
    ]
    x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (1, 64, 16, 16)), ("y", None)))
    graph = helper.make_graph(nodes, "ahead", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model), {"x": rng.normal(size=(1, 64, 16, 16)).astype("f4")}


def digits() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    model = NETWORKS["digits"].build()
    return model, NETWORKS["digits"].inputs(model, seed=1)


def profiled(made: tuple[onnx.ModelProto, dict[str, np.ndarray]], config: Config) -> NetworkProfile:
    model, inputs = made
    with compile_network(to_qdq(model, [inputs]), config) as compiled:
        return profile_of(compiled.artifact, [compiled.run(inputs)])


@pytest.mark.parametrize("preset", ["pynq_z1", "ultra96"])
@pytest.mark.parametrize("made", [ahead, digits])
def test_operators_of_a_profile_are_below_the_roof(made: Callable[[], Any], preset: str) -> None:
    config = Config.preset(preset)
    profile = profiled(made(), config)
    roofs, circles = drawn(operators_roofline(config, profile.operators))
    rows = [row for row in profile.to_dict()["operators"] if row["cycles"] and row["utilisation"]]
    assert len(circles) == len(rows) >= 2
    for (_, title, place), row in zip(circles, rows, strict=True):
        require_below(roofs["roof"], title, place)
        speed = row["utilisation"] * config.peak_gops
        busier = max(row["bytes_read"], row["bytes_written"])
        assert row["bytes"] == row["bytes_read"] + row["bytes_written"]
        assert busier <= row["cycles"] * config.peak_bytes_per_cycle
        operations = 2 * row["utilisation"] * row["cycles"] * config.macs_per_cycle / busier
        assert title.startswith(f"{row['name']}: {speed:,.1f} GOPS, {operations:,.1f} operations a byte, ")
        assert float(re.findall(r"([\d.]+) % of the roof$", title)[0]) <= 100


# --- verdicts -------------------------------------------------------------------------------------


def wide(value: te.Value) -> te.Value:
    return te.cast("int32", value)


def declare_written_out(config: Config) -> vdla.Extension:
    """Distances from a vector of weights, in a step whose sum is written out."""
    lanes, terms = config.block_out, config.block_in
    inp = te.placeholder((config.batch, terms), config.inp_dtype, "inp")
    wgt = te.placeholder((lanes, terms), config.wgt_dtype, "wgt")
    total = lambda b, o: sum(te.abs(wide(inp[b, k]) - wide(wgt[o, k])) for k in range(terms))  # noqa: E731
    output = te.compute((config.batch, lanes), total, "acc")
    scopes = {"inp": "inp", "wgt": "wgt", "acc": "acc"}
    return vdla.Extension(name="unrolled", doc="Distances.", output=output, scopes=scopes)


def declare_product(config: Config) -> vdla.Extension:
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")
    product = lambda b, o: te.sum(wide(inp[b, i]) * wide(wgt[o, i]), axis=i)  # noqa: E731
    output = te.compute((config.batch, config.block_out), product, "acc")
    scopes = {"inp": "inp", "wgt": "wgt", "acc": "acc"}
    return vdla.Extension(name="again", doc="As GEMM.", output=output, scopes=scopes)


def dense(terms: int, name: str = "dense") -> EvaluatedLayer:
    return layer_of(name, vdla.definitions.dense(rows=64, in_features=terms, out_features=64).output)


def cheaper_before() -> EvaluatedLayer:
    """A product whose terms are added six times, and the same with one product before."""
    x, w = te.placeholder((64, 32), "int8", "x"), te.placeholder((64, 32), "int8", "w")
    k, again = te.reduce_axis(32, "k"), te.reduce_axis(6, "again")
    once = te.compute((64, 64), lambda n, m: te.sum(wide(x[n, k]) * wide(w[m, k]), axis=k), "y")
    product = lambda n, m: te.sum(wide(x[n, k]) * wide(w[m, k]), axis=[again, k])  # noqa: E731
    return layer_of("cheaper", te.compute((64, 64), product, "y"), once)


CASES = {
    "one formulation": (declare_product, lambda: [dense(8), dense(256, "deep")]),
    "another formulation": (declare_product, lambda: [cheaper_before(), dense(64)]),
}


@pytest.mark.parametrize("case", CASES)
def test_layers_of_a_verdict_are_below_the_roof(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.runtime.verdict.kept.user_cache", lambda kind: tmp_path / kind)
    declare, layers = CASES[case]
    verdict = evaluate(declare, layers(), TINY)
    roofs, circles = drawn(verdict_roofline(verdict))
    for class_, title, place in circles:
        late = class_.startswith("after") and "roof later" in roofs
        require_below(roofs["roof later" if late else "roof"], title, place)
    for layer, cells in zip(verdict.layers, layer_rows(verdict), strict=True):
        shares = [float(share) for share in cells[5].split(" > ")]
        assert max(shares) <= 100
        for class_, steps, cost in (
            ("before", layer.steps_before, layer.before.cost),
            ("after", layer.steps, layer.after.cost),
        ):
            if cost is None:
                continue
            point = point_of(steps, cost)
            figures = f"{point.gops(TINY):,.1f} GOPS, {point.intensity:,.1f} operations a byte"
            titles = [title.rpartition(", ")[0] for one, title, _ in circles if one == class_]
            assert f"{layer.name} {class_}: {figures}" in titles


def test_the_terms_of_a_sum_that_is_written_out_are_steps() -> None:
    verdict = evaluate(declare_written_out, [dense(8)], TINY)
    assert verdict.steps_after == TINY.batch * TINY.block_out * TINY.block_in
