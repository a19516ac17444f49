# SPDX-License-Identifier: Apache-2.0
"""The trace for Perfetto and the table of times."""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.small_programs import small_gemm

from vdla.hardware.config import Config
from vdla.simulator.stats import RunTrace, Times
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_program


def traced():
    program, _, _ = small_gemm(Config.preset("tiny"))
    statistics = time_program(program)
    return program, statistics, RunTrace(program, statistics)


def test_every_instruction_is_a_slice_on_its_units_track(tmp_path):
    _, statistics, trace = traced()
    path = tmp_path / "run.json"
    trace.write(path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
    found = json.loads(path.read_text())["traceEvents"]
    slices = [e for e in found if e["ph"] == "X" and e["tid"] < 3]
    assert [e["ts"] for e in slices] == statistics.starts.tolist()
    assert [e["ts"] + e["dur"] - 1 for e in slices] == statistics.ends.tolist()
    assert {e["args"]["name"] for e in found if e["name"] == "thread_name"} == {"load", "compute", "store", "fetch"}
    assert slices[0]["name"] == "LOAD uop"


def test_tokens_point_forwards_and_queues_are_never_negative():
    _, _, trace = traced()
    found = list(trace.events())
    starts = {e["id"]: e["ts"] for e in found if e["ph"] == "s"}
    ends = {e["id"]: e["ts"] for e in found if e["ph"] == "f"}
    assert starts and starts.keys() == ends.keys()
    assert all(starts[key] < ends[key] for key in starts)
    counts = [e["args"]["tokens"] for e in found if e["ph"] == "C"]
    assert min(counts) == 0 and max(counts) <= 8


def test_the_table_has_a_line_for_each_instruction():
    program, _, trace = traced()
    lines = trace.table().splitlines()
    assert len(lines) == len(program) + 1
    assert lines[0].split() == ["number", "unit", "opcode", "dispatch", "start", "end", "line"]
    assert lines[1].split()[:3] == ["0", "compute", "LOAD"]


def test_a_run_of_another_program_is_refused():
    program, statistics, _ = traced()
    with pytest.raises(SimulationError) as error:
        RunTrace(program, replace(statistics, starts=np.zeros(2, np.int64)))
    assert str(error.value) == f"trace {program.name}: run must have {len(program)} instructions, got 2"


def test_a_run_on_a_device_that_records_no_times_has_no_trace():
    program, statistics, _ = traced()
    with pytest.raises(SimulationError) as error:
        RunTrace(program, replace(statistics, starts=Times.none(len(program)).starts))
    assert str(error.value) == (
        f"trace {program.name}: the device must record the time of each instruction, got totals only"
    )
