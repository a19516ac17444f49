# SPDX-License-Identifier: Apache-2.0
"""The columns of a page, unpacked without a browser; the page as a file."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.small_programs import small_gemm

import vdla
from vdla.compiler.templates import dense
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer
from vdla.hardware.program import Program
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.sim import SimDevice
from vdla.runtime.diagnosis.comparison import compare
from vdla.simulator.stats import RunStats
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_program
from vdla.simulator.verify.accesses import program_accesses
from vdla.viewer.footprint_columns import FootprintColumns
from vdla.viewer.packed_columns import pack_columns
from vdla.viewer.recording import ViewedProgram, recording

TINY = Config.preset("tiny")


def size(where: slice | np.ndarray) -> int:
    return len(range(where.start, where.stop)) if isinstance(where, slice) else len(where)


def unpacked(described: list[dict], text: str) -> dict[str, np.ndarray]:
    content, result = zlib.decompress(base64.b64decode(text)), {}
    for one in described:
        stored = np.frombuffer(content, one["stored"], one["count"], one["place"]).astype(np.int64)
        result[one["name"]] = stored if one["type"] == one["stored"] else np.cumsum(stored)
    return result


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ([], "int8"),
        ([0, -128, 127], "int8"),
        ([255], "uint8"),
        ([70000, 70001, 70003], "int32"),
        ([1000, 1001, 1000], "int16"),
        ([200, 210, 220], "uint8"),
        (list(range(0, 100000, 100)), "int8"),
        ([1 << 31, 5], "uint32"),
        ([1 << 40, (1 << 40) + 1], "float64"),
        ([-5, 1 << 31], "float64"),
    ],
)
def test_columns_come_back_from_the_narrowest_type(values: list[int], stored: str) -> None:
    columns = {"first": np.array([1, 2, 3]), "values": np.array(values, np.int64)}
    described, text = pack_columns(columns)
    assert described[1]["stored"] == stored
    assert all(one["place"] % 8 == 0 for one in described)
    for name, array in unpacked(described, text).items():
        np.testing.assert_array_equal(array, columns[name])


@pytest.mark.parametrize("name", ["tiny", "int4", "batch4"])
def test_footprints_are_those_of_the_verifier(name: str) -> None:
    program, _, _ = small_gemm(Config.preset(name))
    footprints = FootprintColumns()
    footprints.add(program)
    columns, ends = footprints.columns(), {}
    place, begins = 0, np.append(0, np.cumsum(columns["shape_ranges"]))
    ranges = columns["ranges"].reshape(-1, 2)
    for accesses, count in zip(program_accesses(program).accesses, columns["accesses"], strict=True):
        on_chip = [access for _, access in accesses if access.buffer is not None and size(access.where)]
        assert len(on_chip) == count
        for access in on_chip:
            shape, first = columns["access_shape"][place], columns["access_first"][place]
            spans = ranges[begins[shape] : begins[shape + 1]] + first
            entries = np.concatenate([np.arange(begin, stop) for begin, stop in spans])
            where = access.where
            wanted = np.arange(where.start, where.stop) if isinstance(where, slice) else where
            np.testing.assert_array_equal(entries, wanted)
            assert columns["shape_buffer"][shape] == list(Buffer).index(access.buffer)
            assert columns["shape_writes"][shape] == access.writes
            ends[access.buffer] = max(ends.get(access.buffer, 1), int(entries[-1]) + 1)
            place += 1
    assert place == len(columns["access_shape"])
    assert footprints.used == [ends.get(buffer, 1) for buffer in Buffer]


def test_programs_of_a_network_are_numbered_through() -> None:
    first, second = small_gemm(TINY)[0], dense(TINY, rows=4, in_features=8, out_features=4).program
    parts = [ViewedProgram(program, time_program(program), (("op", 1),)) for program in (first, second)]
    both, alone = recording("both", parts), recording("second", parts[1:])
    count, cycles = len(first), parts[0].statistics.total_cycles
    assert both.head["parts"][1] == {
        "name": second.name, "instruction": count, "cycle": cycles, "line": len(first.source_lines),
    }  # fmt: skip
    np.testing.assert_array_equal(both.times["start"][count:], alone.times["start"] + cycles)
    for name in ("from_prev", "from_next"):
        np.testing.assert_array_equal(both.details[name][count:], alone.details[name])
    shift = len(first.source_lines)
    lines = np.where(alone.details["line"] < 0, -1, alone.details["line"] + shift)
    np.testing.assert_array_equal(both.details["line"][count:], lines)
    assert both.head["operators"] == [{"name": "op", "line": 0}, {"name": "op", "line": shift}]
    assert both.head["cycles"] == cycles + parts[1].statistics.total_cycles


def test_the_page_is_one_file_that_refers_to_nothing(tmp_path: Path) -> None:
    program, _, _ = small_gemm(TINY)
    shown = vdla.view(program)
    shown.save(tmp_path / "view.html")
    text = (tmp_path / "view.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["view.html"]
    assert not re.search(r"https?:|\bsrc=|@import|url\(|<link", text)
    assert repr(shown) == f"<RunView of {program.name}>"
    assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')


def test_a_title_cannot_end_the_script_of_the_page() -> None:
    program = replace(small_gemm(TINY)[0], name="</script><b>")
    page = vdla.view(program).page()
    assert "</script><b>" not in page and "&lt;/script&gt;&lt;b&gt;" in page


def test_results_of_any_device_are_shown_and_anything_else_is_refused() -> None:
    program, arrays, _ = small_gemm(TINY)
    result = vdla.run(program, arrays)
    one, other = vdla.view(result, program).recordings
    np.testing.assert_array_equal(one.times["start"], other.times["start"])
    for wrong in (3, None):
        with pytest.raises(SimulationError) as error:
            vdla.view(wrong)
        rule = "run must be a Program, a Result, a Comparison or a compiled network"
        assert str(error.value) == f"view: {rule}, got {wrong}"
    with pytest.raises(SimulationError) as error:
        vdla.view(vdla.simulate(program, arrays, mode="function"))
    assert str(error.value) == f"result of {program.name}: statistics need mode both or timing, got function"


class Late(SimDevice):
    """A simulator on which every instruction starts and ends a cycle late."""

    name = "late"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        return replace(stats, starts=stats.starts + 1, ends=stats.ends + 1, total_cycles=stats.total_cycles + 1)


class Broken(SimDevice):
    """A simulator that runs nothing."""

    name = "broken"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        raise DeviceError("device broken: no run")


def test_a_comparison_is_the_runs_of_both_devices() -> None:
    program, arrays, _ = small_gemm(TINY)
    with SimDevice(TINY) as sim, Late(TINY) as late, Broken(TINY) as broken:
        shown = vdla.view(compare(program, arrays, (sim, late)))
        failed = compare(program, arrays, (sim, broken))
    one, other = shown.recordings
    np.testing.assert_array_equal(one.times["start"] + 1, other.times["start"])
    assert (one.title, other.title) == (f"{program.name} on sim", f"{program.name} on late")
    with pytest.raises(SimulationError) as error:
        vdla.view(failed)
    reason = "both runs must end, got an error on broken: device broken: no run"
    assert str(error.value) == f"view {program.name}: {reason}"
