"""The trace for Perfetto and the table of times."""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.small_programs import small_gemm

from vdla.hardware.config import Config
from vdla.simulator.stats.trace import events, table_lines, write_trace
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing.timing import time_program


def traced():
    program, _, _ = small_gemm(Config.preset("tiny"))
    return program, time_program(program)


def test_every_instruction_is_a_slice_on_its_units_track(tmp_path):
    program, stats = traced()
    path = tmp_path / "run.json"
    write_trace(path, program, stats)
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
    found = json.loads(path.read_text())["traceEvents"]
    slices = [e for e in found if e["ph"] == "X" and e["tid"] < 3]
    assert [e["ts"] for e in slices] == stats.starts.tolist()
    assert [e["ts"] + e["dur"] - 1 for e in slices] == stats.ends.tolist()
    assert {e["args"]["name"] for e in found if e["name"] == "thread_name"} == {"load", "compute", "store", "fetch"}
    assert slices[0]["name"] == "LOAD uop"


def test_tokens_are_arrows_that_point_forwards_and_queues_never_go_negative():
    program, stats = traced()
    found = list(events(program, stats))
    starts = {e["id"]: e["ts"] for e in found if e["ph"] == "s"}
    ends = {e["id"]: e["ts"] for e in found if e["ph"] == "f"}
    assert starts and starts.keys() == ends.keys()
    assert all(starts[key] < ends[key] for key in starts)
    counts = [e["args"]["tokens"] for e in found if e["ph"] == "C"]
    assert min(counts) == 0 and max(counts) <= 8


def test_the_table_has_a_line_for_each_instruction():
    program, stats = traced()
    lines = list(table_lines(program, stats))
    assert len(lines) == len(program) + 1
    assert lines[0].split() == ["number", "unit", "opcode", "dispatch", "start", "end", "line"]
    assert lines[1].split()[:3] == ["0", "compute", "LOAD"]


def test_a_run_of_another_program_is_refused():
    program, stats = traced()
    other = replace(stats, starts=np.zeros(2, np.int64))
    with pytest.raises(SimulationError) as error:
        list(events(program, other))
    assert str(error.value) == f"trace {program.name}: run must have {len(program)} instructions, got 2"
