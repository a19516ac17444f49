# SPDX-License-Identifier: Apache-2.0
"""The benchmark of activity: a machine agrees, and a wrong count is seen."""

from __future__ import annotations

import pytest

from vdla.benchmarks import activity
from vdla.hardware.config import Config
from vdla.simulator.energy import Action, MachineEvent


def test_events_with_other_counts_are_named() -> None:
    event, other = MachineEvent("inp", Action.READ, 32), MachineEvent("reads", Action.BURST)
    assert activity.differing({event: 3, other: 1}, {event: 3}) == ["reads burst"]
    assert activity.differing({event: 3}, {event: 3}) == []


@pytest.mark.rtl
def test_a_machine_agrees_and_a_missing_event_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "PROGRAMS", 3)
    tiny = Config.preset("tiny")
    row = activity._row(tiny, 0)
    assert (row["programs"], row["mismatches"]) == (3, 0) and row["events"] > 1000
    monkeypatch.setattr("vdla.simulator.energy.activity.uop_beats", lambda config: (32,))
    assert activity._row(tiny, 0)["mismatches"] > 0


def test_one_machine_has_extensions() -> None:
    names = [config.name for config in activity.machines() if config.extensions]
    assert names == ["extended"]
