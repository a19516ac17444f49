# SPDX-License-Identifier: Apache-2.0
"""The log for Konata, read again by the rules of its format."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from helpers.extensions import sad
from helpers.small_programs import small_gemm

import vdla
from vdla.compiler.templates import conv2d
from vdla.hardware.asm.disassembler import row_text
from vdla.hardware.config import Config
from vdla.hardware.isa import COL
from vdla.hardware.program import Program
from vdla.simulator.stats import RunTrace
from vdla.simulator.stats.tokens import NONE, token_givers
from vdla.simulator.timing import time_program
from vdla.verification.programs.random_programs import random_verified_program

TINY = Config.preset("tiny")


@dataclass
class Logged:
    """An instruction of a log: its thread, left text, begins of stages, end, givers."""

    thread: int
    texts: list[str] = field(default_factory=list)
    stages: dict[str, int] = field(default_factory=dict)
    end: int | None = None
    retirement: int | None = None
    givers: list[int] = field(default_factory=list)


def read(path: Path) -> list[Logged]:
    """The instructions of a log; every rule of the format is asserted."""
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[:2] == [["Kanata", "0004"], ["C=", "0"]]
    cycle, known, live = 0, [], set()
    for command, *words in lines[2:]:
        numbers = [int(word) for word in words if word.isdecimal()]
        if command == "C":
            assert numbers[0] > 0
            cycle += numbers[0]
            continue
        k = int(words[0])
        if command == "I":
            assert numbers == [len(known), len(known), numbers[2]]
            known.append(Logged(numbers[2]))
            live.add(k)
            continue
        assert k in live
        if command == "L":
            known[k].texts.append(words[2])
        elif command == "S":
            assert words[1] == "0"
            known[k].stages[words[2]] = cycle
        elif command == "W":
            assert words[2] == "0"
            known[k].givers.append(int(words[1]))
        else:
            assert command == "R" and words[2] == "0"
            known[k].end, known[k].retirement = cycle, int(words[1])
            live.remove(k)
    assert not live
    return known


def programs() -> list[Program]:
    conv = conv2d(TINY, height=8, width=8, in_channels=16, out_channels=16, kernel=3, batch=1).program
    return [small_gemm(TINY)[0], conv, random_verified_program(vdla.extend(TINY, sad), 3, 60)]


@pytest.mark.parametrize("number", range(3))
def test_a_log_has_the_times_texts_and_tokens_of_the_run(tmp_path: Path, number: int) -> None:
    program = programs()[number]
    stats = time_program(program)
    RunTrace(program, stats).write_konata(tmp_path / "run.kanata")
    log = read(tmp_path / "run.kanata")
    assert [one.stages["Q"] for one in log] == stats.dispatches.tolist()
    assert [sum(one.stages.values()) - one.stages["Q"] for one in log] == stats.starts.tolist()
    assert [one.end for one in log] == (stats.ends + 1).tolist()
    assert [one.texts[0] for one in log] == [f"{k}: {row_text(program, k)}" for k in range(len(program))]
    assert [one.thread for one in log] == program.columns[:, COL["unit"]].tolist()
    units = [next(name for name in one.stages if name != "Q") for one in log]
    assert units == [("Ld", "Cp", "St")[one.thread] for one in log]
    wanted = [[giver for giver in row if giver != NONE] for row in token_givers(program.columns).tolist()]
    assert [one.givers for one in log] == wanted
    assert sorted(one.retirement for one in log) == list(range(len(program)))
    by_end = np.argsort([one.retirement for one in log])
    assert (np.diff(stats.ends[by_end]) >= 0).all()


def test_the_texts_name_the_line_of_the_schedule_and_the_waits(tmp_path: Path) -> None:
    program = programs()[1]
    stats = time_program(program)
    RunTrace(program, stats).write_konata(tmp_path / "run.kanata")
    log = read(tmp_path / "run.kanata")
    k = int(np.flatnonzero(program.source_of >= 0)[0])
    assert log[k].texts[1] == f"from: {program.source_lines[program.source_of[k]].strip()}; "
    waited = {name: int(cycles) for name, cycles in (part.split() for part in log[k].texts[2].split(", "))}
    assert waited and sum(waited.values()) == stats.waits[k].sum()
