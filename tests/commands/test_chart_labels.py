"""Names beside points: none covers a point or another name, and what has no room is left out."""

from __future__ import annotations

import re

from vdla.commands.chart_labels import ChartPoint, chart_labels

TOP, BOTTOM = 20.0, 400.0


def placed(*points: ChartPoint) -> dict[str, tuple[float, float, str]]:
    """The texts with their places and anchors."""
    found = {}
    for attributes, text in re.findall(r"<text ([^>]*)>([^<]*)</text>", chart_labels(points, TOP, BOTTOM)):
        values = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        found[text] = (float(values["x"]), float(values["y"]), values["text-anchor"])
    return found


def test_a_name_stands_to_the_right_and_else_to_the_left() -> None:
    assert placed(ChartPoint(300, 100, 5, "one")) == {"one": (310, 104, "start")}
    pair = placed(ChartPoint(300, 100, 5, "one"), ChartPoint(320, 100, 5, "two"))
    assert pair == {"one": (290, 104, "end"), "two": (330, 104, "start")}


def test_names_at_one_place_stand_one_above_the_other() -> None:
    names = placed(*(ChartPoint(300, 100, 5, name) for name in ("one", "two", "three", "four")))
    assert len(names) == 4 and len(set(names.values())) == 4


def test_a_name_stays_within_the_plot() -> None:
    (place,) = placed(ChartPoint(80, 395, 5, "a name of some length")).values()
    assert place[2] == "start" and place[1] <= BOTTOM


def test_a_name_without_room_is_left_out() -> None:
    crowd = [ChartPoint(200 + 12 * k, 20 + 12 * j, 7) for k in range(40) for j in range(32)]
    assert placed(*crowd, ChartPoint(400, 200, 5, "hidden")) == {}
