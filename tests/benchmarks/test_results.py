# SPDX-License-Identifier: Apache-2.0
"""The page of results and its records agree; results of benchmarks take the place of figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vdla.benchmarks.results import BY_HAND, PAGE, RECORDS, Record, read_records, records_text, results_page
from vdla.commands.bench_command import _descriptions

RECORD = Record(
    what="cycles over the bound", figure="1.005", command="vdla bench layers", cpu="Zen 4", date="2026-11-24",
    form="{over:.3f}",
)  # fmt: skip


def document(command: str = "vdla bench layers --seed 0 --json -", **more: Any) -> dict[str, Any]:
    receipt = {"command": command, "cpu": "znver5", "date": "2026-11-28", "config_fingerprint": "abcd"}
    return {"figures": {"over": 1.00449}, "rows": [], "receipt": receipt, **more}


def test_the_page_shows_the_records() -> None:
    assert PAGE.read_text(encoding="utf-8") == results_page(read_records())
    assert RECORDS.read_text(encoding="utf-8") == records_text(read_records())


def test_every_record_has_a_benchmark_a_cpu_and_a_date() -> None:
    benchmarks = _descriptions()
    for record in read_records():
        assert record.command.split()[:2] == ["vdla", "bench"]
        assert record.command.split()[2] in benchmarks
        assert record.cpu
        assert len(record.date) == len("2026-11-28")


def test_a_result_replaces_the_figure_with_its_receipt() -> None:
    now = RECORD.updated(document())
    assert now == replace(RECORD, figure="1.004", cpu="znver5", date="2026-11-28", recorded="abcd")
    assert replace(RECORD, family="znver5").updated(document()).figure == "1.004"
    assert "| 1.004 | `vdla bench layers` | znver5 | 2026-11-28 | abcd |" in results_page([now])


@pytest.mark.parametrize(
    ("record", "result"),
    [
        (RECORD, document("vdla bench chain --json -")),
        (replace(RECORD, command="vdla bench layers --long"), document()),
        (RECORD, document(figures={"other": 2.0})),
        (replace(RECORD, form=""), document()),
        (replace(RECORD, family="znver4"), document()),
        (replace(RECORD, where={"machine": "tiny"}), document(rows=[{"machine": "pynq_z1", "over": 1.0}])),
    ],
    ids=["another benchmark", "the long form", "without the figure", "by hand only", "another CPU", "another row"],
)
def test_another_result_changes_nothing(record: Record, result: dict[str, Any]) -> None:
    assert record.updated(result) == record
    assert record.recorded == BY_HAND


def test_a_figure_may_come_from_a_row() -> None:
    record = replace(RECORD, where={"machine": "tiny"})
    rows = [{"machine": "pynq_z1", "over": 1.0}, {"machine": "tiny", "over": 2.0}]
    assert record.updated(document(rows=rows)).figure == "2.000"
