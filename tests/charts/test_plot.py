# SPDX-License-Identifier: Apache-2.0
"""Scales have a few round ticks; names beside points cover neither points nor other names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest

from vdla.charts.plot import ChartLine, ChartPoint, Plot, Scale, chart_points

RIGHT, BOTTOM = 932.0, 400.0
TOP = 20.0
PLOT = Plot(Scale(72, RIGHT, 72, RIGHT), Scale(TOP, BOTTOM, BOTTOM, TOP))


@pytest.mark.parametrize("span", [1, 2, 9, 10, 99, 12_345, 471_820, 10**9])
def test_a_scale_has_a_few_round_ticks(span: int) -> None:
    ticks = Scale(0, span, 72, RIGHT).ticks(9, least=1)
    assert 2 <= len(ticks) <= 10
    assert ticks == [int(tick) for tick in ticks]


@pytest.mark.parametrize(("low", "high"), [(1, 2.5), (0.25, 512), (1e-6, 1e6)])
def test_ticks_of_a_logarithmic_scale_are_powers_of_two(low: float, high: float) -> None:
    scale = Scale(low, high, 72, RIGHT, log=True)
    ticks = scale.ticks(8)
    assert 1 <= len(ticks) <= 12
    assert all(low <= tick <= high for tick in ticks)
    assert all(b / a in (2.0, 4.0, 8.0, 16.0) for a, b in pairwise(ticks))


def test_a_value_outside_a_scale_is_drawn_at_its_end() -> None:
    assert [Scale(1, 64, 10, 70, log=True)(value) for value in (0, 8, 100)] == [10, 40, 70]
    assert Scale(5, 5, 10, 70)(5) == 10


# --- names ----------------------------------------------------------------------------------------


def point(x: float, y: float, radius: float, name: str = "") -> ChartPoint:
    """A point at a position."""
    return ChartPoint(x=x, y=TOP + BOTTOM - y, row=name, tip=name, class_="vdla", name=name, radius=radius)


def placed(*points: ChartPoint, lines: Sequence[ChartLine] = ()) -> dict[str, tuple[float, float, str]]:
    """The texts with their places and anchors."""
    texts = {}
    for attributes, text in re.findall(r"<text ([^>]*)>([^<]+)</text>", chart_points(PLOT, points, lines)):
        values = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        texts[text] = (float(values["x"]), float(values["y"]), values["text-anchor"])
    return texts


def test_a_name_stands_to_the_right_and_else_to_the_left() -> None:
    assert placed(point(300, 100, 5, "one")) == {"one": (310, 104, "start")}
    pair = placed(point(300, 100, 5, "one"), point(320, 100, 5, "two"))
    assert pair == {"one": (290, 104, "end"), "two": (330, 104, "start")}


def test_names_at_one_place_stand_one_above_the_other() -> None:
    names = placed(*(point(300, 100, 5, name) for name in ("one", "two", "three", "four")))
    assert len(names) == 4 and len(set(names.values())) == 4


def test_a_name_stays_within_the_plot() -> None:
    (place,) = placed(point(80, 395, 5, "a name of some length")).values()
    assert place[2] == "start" and place[1] <= BOTTOM


def test_a_name_does_not_cross_a_line() -> None:
    line = ChartLine([(72.0, 100.0), (RIGHT, 100.0)], "roof")
    assert placed(point(300, 100, 5, "one"), lines=[line]) == {"one": (310, 90, "start")}


def test_a_name_without_room_is_left_out() -> None:
    crowd = [point(200 + 12 * k, 20 + 12 * j, 7) for k in range(40) for j in range(32)]
    assert placed(*crowd, point(400, 200, 5, "hidden")) == {}
