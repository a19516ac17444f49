# SPDX-License-Identifier: Apache-2.0
"""Shapes of inputs: --shape x=1x3x48x192; several shapes of an input make several plans."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.commands import CommandError


def shapes_of(command: str, settings: Sequence[str]) -> dict[str, list[tuple[int, ...]]] | None:
    """The shapes in words NAME=NxN by input, under "" those without a name; None without words."""
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for setting in settings:
        name, _, text = setting.rpartition("=")
        shapes.setdefault(name, []).append(_shape(command, setting, text))
    return shapes or None


def _shape(command: str, setting: str, text: str) -> tuple[int, ...]:
    """The extents of 1x3x48x192; "scalar" has none."""
    words = [] if text == "scalar" else text.split("x")
    if not all(word.isascii() and word.isdecimal() for word in words):
        rule = "must be NAME=NxN with integers from 0, such as x=1x3x48x192"
        raise CommandError(f"{command}: --shape {rule}, got {setting}")
    return tuple(map(int, words))
