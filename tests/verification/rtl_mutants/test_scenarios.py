# SPDX-License-Identifier: Apache-2.0
"""The RTL passes every scenario, and defects that other checks missed fail one."""

from __future__ import annotations

import pytest

pytest.importorskip("pyslang")

from helpers.seeds import long_count

from vdla.benchmarks.rtl_mutants import run
from vdla.hardware.config import Config
from vdla.verification.rtl_mutants.campaign import judge, original_finding
from vdla.verification.rtl_mutants.defects import defects
from vdla.verification.rtl_mutants.design import read_design
from vdla.verification.rtl_mutants.model import build_model
from vdla.verification.rtl_mutants.scenarios import Round, Scenario, scenarios
from vdla.verification.rtl_mutants.verdict import Killer

pytestmark = pytest.mark.rtl
TINY = Config.preset("tiny")
LIVES = Killer.NOTHING

# By key, and what finds it: register accesses, resets and limits that programs do not meet.
SUBTLE = {
    "vdla_axil: enable: !ar_held_q -> 1'b1": Killer.ASSERTION,  # the next read address overwrites a held one
    "vdla_burst_limit: operator: level_q != '0 -> (level_q) == ('0)": Killer.ASSERTION,  # withdraws AR, AW and W
    "vdla: width: bus_error[Units:1] -> bus_error[Units:(1) + 1]": Killer.STOPS,  # errors of another unit
    "vdla_read_arbiter: constant: 4'b0011 -> 4'b100": Killer.PROTOCOL,  # ARCACHE
    "vdla_sequencer: assignment: reading_q <= 1'b0; -> ;": Killer.ASSERTION,  # a reset leaves a long instruction
    "vdla_registers: assignment: stream_hi_q <= StreamHiBits'(merge(32'(stream_hi_q))); -> ;": Killer.EQUALITY,
}


EVERY = [scenario for chosen in Round for scenario in scenarios(chosen)]


@pytest.mark.sampled
@pytest.mark.parametrize("scenario", EVERY, ids=lambda scenario: scenario.name)
def test_the_rtl_passes(scenario: Scenario) -> None:
    scenario.check(TINY, None, 5)


@pytest.mark.long
def test_subtle_defects_are_found() -> None:
    files = read_design(TINY)
    every = {defect.key: defect for file in files for defect in defects(file)}
    assert set(SUBTLE) <= set(every), "the code of a defect has changed: plant it anew"
    model = build_model(TINY, files, [every[key] for key in SUBTLE])
    assert original_finding(model, 0, Round.FIRST) == ""
    found: dict[str, Killer] = {}
    for chosen in Round:
        alive = [number for number, defect in model.defects.items() if found.get(defect.key, LIVES) is LIVES]
        found |= {verdict.defect.key: verdict.killer for verdict in judge(model, alive, 0, 1, chosen)}
    assert found == SUBTLE


@pytest.mark.long
def test_every_defect_of_a_sample_is_found() -> None:
    """One of all 20 has no effect on `tiny`, whose entries have one beat: `deep` finds it."""
    count = long_count(20)
    result = run(seed=1, count=count)
    print(*result.receipt["verdicts"], sep="\n")
    assert result.receipt["survivors"] == []
    figures = result.figures
    assert figures["mutants"] == count == figures["killed"] + figures["equivalent"]
    assert figures["killed"] >= 0.9 * count
