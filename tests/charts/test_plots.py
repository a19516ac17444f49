# SPDX-License-Identifier: Apache-2.0
"""Charts of no points, one, many, equal ones and zeros: texts are apart, within the picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from helpers.drawn_charts import SVG, Expected, check_points, check_texts, drawn_marks

from vdla.charts.plot import ChartPoint
from vdla.charts.plots import Curve, Roof, convergence, roofline, scatter
from vdla.hardware.config import Config

CONFIG = Config.preset("pynq_z1")
ROOF, HIGHER = Roof.of(CONFIG, CONFIG.macs_per_cycle), Roof.of(CONFIG, 1.1 * CONFIG.macs_per_cycle)

POINTS = {
    "none": [],
    "one": [(100.0, 50.0)],
    "equal": [(20.0, 10.0)] * 8,
    "zeros": [(0.0, 0.0), (1e-4, 1e-5), (1e5, 51.0)],
    "many": [(2.0 ** (k % 13 - 3), 0.2 + k % 7 * 3) for k in range(60)],
}
CURVES = {
    "one trial": [[2.0]],
    "equal": [[1.0] * 500] * 7,
    "failures": [[float("inf")] * 3 + [5.0, 2.0, 1.0]],
    "crowded below": [[3.0, 1.0 + k / 1000] for k in range(8)],
}


def points_of(name: str) -> list[ChartPoint]:
    return [ROOF.point(f"layer{k}", x, y, "vdla", f"layer{k}") for k, (x, y) in enumerate(POINTS[name])]


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("roofs", [[ROOF], [ROOF, HIGHER]])
def test_rooflines(name: str, roofs: list[Roof]) -> None:
    svg = roofline(roofs, points_of(name), title="a title")
    check_texts(svg)
    tree = ElementTree.fromstring(svg)
    assert len(drawn_marks(tree, "circle")) == len(POINTS[name])
    assert [line.get("class") for line in tree.iter(f"{SVG}polyline")] == ["roof", "roof later"][: len(roofs)]


@pytest.mark.parametrize("name", POINTS)
def test_scatters(name: str) -> None:
    svg = scatter("a title", ("LUTs", "frames/s"), points_of(name))
    check_texts(svg)
    check_points(svg, [Expected(f"layer{k}", x, y) for k, (x, y) in enumerate(POINTS[name])])


@pytest.mark.parametrize("name", CURVES)
def test_curves(name: str) -> None:
    curves = [Curve(name=f"search {k}", values=values, series=k) for k, values in enumerate(CURVES[name])]
    svg = convergence("a title", "cycles over the bound", curves)
    check_texts(svg)
    drawn = [mark.row for mark in drawn_marks(ElementTree.fromstring(svg), "polyline")]
    assert drawn == [curve.name for curve in curves]
