# SPDX-License-Identifier: Apache-2.0
"""Peers side by side: the page has the record, the record the published figures and our cycles."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest

from vdla.benchmarks.harness import SubjectError
from vdla.benchmarks.peers import benchmark, page
from vdla.benchmarks.peers.published import MACHINES, RUNS, SOURCES
from vdla.networks.registry import NETWORKS

SMALL = ("ds_cnn", "resnet8")


@pytest.fixture
def record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.RECORD.read_text(encoding="utf-8"))
    return found


@pytest.fixture
def without_synthesis(monkeypatch: pytest.MonkeyPatch) -> None:
    total = SimpleNamespace(lut=1, dsp=2, bram36=3, uram=4)
    monkeypatch.setattr(benchmark, "area", lambda config, part, progress: SimpleNamespace(total=total))


def ours(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row.get("exact", "") != ""]


def test_the_page_has_the_tables_of_the_record(record: dict[str, Any]) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.page(text, page.checked(record)) == text
    for row in ours(record["rows"]):
        assert f"**`{row['network']}`**" in text
        assert f"| {row['machine']}, int8, " in text
        assert not row["cycles"] or f"| {row['cycles']:,} " in text


def test_the_record_has_the_published_figures(record: dict[str, Any]) -> None:
    published = [row for row in record["rows"] if row["source"]]
    wanted = [asdict(machine) for machine in MACHINES]
    assert [{name: row[name] for name in wanted[0]} for row in published[: len(wanted)]] == wanted
    assert published[len(wanted) :] == [benchmark._published(run) for name in benchmark.MEASURED for run in RUNS
                                        if run.network == name]  # fmt: skip
    assert {row["source"] for row in published} == set(SOURCES)
    assert all(row["differs"] for row in published[len(wanted) :])
    assert record["receipt"]["sources"] == dict(SOURCES)


def test_the_record_has_both_machines_for_every_network(record: dict[str, Any]) -> None:
    machines = [f"VDLA {preset}" for preset in benchmark.PRESETS]
    pairs = [(row["network"], row["machine"]) for row in ours(record["rows"])]
    assert pairs == [(name, machine) for name in benchmark.MEASURED for machine in machines]
    assert record["figures"]["all_exact"] == 1
    for row in ours(record["rows"]):
        if row["cycles"]:
            assert row["frames_per_s"] == pytest.approx(1e6 * row["clock_mhz"] / row["cycles"], rel=2e-3)
            assert row["gop_per_s"] == pytest.approx(row["gop"] * row["whole_frames_per_s"], rel=2e-3)
            assert 0 < row["whole_frames_per_s"] < row["frames_per_s"]
        else:
            assert row["differs"] == benchmark.ON_CPU


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.usefixtures("without_synthesis")
@pytest.mark.parametrize("name", SMALL)
def test_the_record_has_the_cycles_of_today(record: dict[str, Any], name: str) -> None:
    result = benchmark.run(subjects=[name])
    columns = ("network", "machine", "cycles", "offloaded_cycles", "frames_per_s", "whole_frames_per_s", "exact")
    now = [{column: row[column] for column in columns} for row in ours([dict(row) for row in result.rows])]
    assert now == [
        {column: row[column] for column in columns} for row in ours(record["rows"]) if row["network"] == name
    ]
    names = [key for key in record["receipt"]["programs"] if key.startswith(f"{name} on ")]
    assert result.receipt["programs"] == {key: record["receipt"]["programs"][key] for key in names}


@pytest.mark.usefixtures("without_synthesis")
def test_a_small_network_is_measured_on_both_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    found = NETWORKS["resnet8"]
    variant = replace(found, build=lambda seed: found.build(seed=seed, **found.small))
    monkeypatch.setattr(benchmark, "network", {"resnet8": variant}.__getitem__)
    result = benchmark.run(subjects=["resnet8"])
    rows = ours([dict(row) for row in result.rows])
    assert [row["machine"] for row in rows] == ["VDLA pynq_z1", "VDLA kv260"]
    assert all(row["exact"] for row in rows) and result.figures["all_exact"] == 1
    assert all(0 < row["offloaded_cycles"] < row["cycles"] for row in rows)
    peers = [row["machine"] for row in result.rows if row["source"]]
    assert peers[len(MACHINES) :] == ["hls4ml, PYNQ-Z2", "FINN, PYNQ-Z2"]
    assert result.receipt["command"] == "vdla bench peers resnet8 --seed 0"
    assert list(result.receipt["configs"]) == ["pynq_z1", "kv260"]
    assert set(result.receipt["programs"]) == {"resnet8 on pynq_z1: region1", "resnet8 on kv260: region1"}


def test_a_network_without_peers_is_refused() -> None:
    with pytest.raises(SubjectError) as error:
        benchmark.run(subjects=["resnet19"])
    names = ", ".join(benchmark.MEASURED)
    assert str(error.value) == f"bench peers: network must be one of {names}, got resnet19 (did you mean resnet18?)"


def test_the_result_of_some_networks_is_not_recorded(record: dict[str, Any]) -> None:
    part = {**record, "rows": record["rows"][:8], "receipt": {"command": "vdla bench peers ds_cnn"}}
    with pytest.raises(SystemExit) as error:
        page.checked(part)
    assert str(error.value) == "peers: the result must be of all networks, got vdla bench peers ds_cnn"
