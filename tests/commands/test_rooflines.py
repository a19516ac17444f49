# SPDX-License-Identifier: Apache-2.0
"""No point of a roofline lies above the roof, and each is where its table says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.chart_data import ahead, cheaper_before, declare_product, declare_written_out, dense, digits, profiled

from vdla.commands.profile_page import operators_roofline
from vdla.commands.verdict_page import verdict_roofline
from vdla.commands.verdict_tables import layer_rows
from vdla.hardware.config import Config
from vdla.runtime.studies.report import point_of
from vdla.runtime.studies.verdict import evaluate

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


@pytest.mark.parametrize("preset", ["pynq_z1", "ultra96"])
@pytest.mark.parametrize("made", [ahead, digits])
def test_operators_of_a_profile_are_below_the_roof(made: Callable[[], Any], preset: str) -> None:
    config = Config.preset(preset)
    _, profile = profiled(made(), config)
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


CASES = {
    "one formulation": (declare_product, lambda: [dense(8), dense(256, "deep")]),
    "another formulation": (declare_product, lambda: [cheaper_before(), dense(64)]),
}


@pytest.mark.parametrize("case", CASES)
def test_layers_of_a_verdict_are_below_the_roof(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.runtime.studies.layer_cycles.user_cache", lambda kind: tmp_path / kind)
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
