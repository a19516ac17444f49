# SPDX-License-Identifier: Apache-2.0
"""Coverage of instructions of extensions: goals from ports and fields, hits of single programs."""

from helpers.extensions import lut, mix, sad
from helpers.hand_programs import program
from helpers.stateful import running, table

import vdla
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Load, MicroOp, Store, isa_of
from vdla.simulator.timing import time_program
from vdla.verification.coverage import plug_ins
from vdla.verification.coverage.coverage import Coverage, goals
from vdla.verification.programs.random_programs import random_verified_program

PLAIN = Config.preset("tiny")
TINY = vdla.extend(PLAIN, lut, sad, mix)


def covered(work):
    coverage = Coverage()
    coverage.add(work, time_program(work))
    return {name for name in plug_ins.bins(work.config) if coverage.counts[name]}


def test_goals_follow_from_fields_and_operands():
    names = set(plug_ins.bins(TINY))
    assert {name for name in names if "." in name} == {
        *(f"LUT.shift {value}" for value in ("zero", "one", "max")),
        *(f"MIX.by {value}" for value in ("min", "zero", "one", "max")),
    }
    assert {"SAD begins a sum", "SAD src at the last", "LUT wgt at the last", "MIX emits REQUANT"} <= names
    assert not {"LUT begins a sum", "LUT src at the last", "MIX emits STAGE"} & names
    assert goals([TINY]) == [*goals(), *plug_ins.bins(TINY)]


def test_goals_leave_out_what_rules_exclude():
    names = plug_ins.bins(vdla.extend(PLAIN, table, running))
    assert "RUN emits STAGE" in names
    assert [name for name in names if name.startswith("TABLE_LOAD emits")] == ["TABLE_LOAD emits NONE"]


def test_a_program_hits_what_it_does():
    sums, lookup = (isa_of(TINY).format_named(name).cls for name in ("sad", "lut"))
    loads = (Load(Buffer.UOP, x_size=2), Load(Buffer.WGT), Load(Buffer.INP, x_size=4, push_next=1))
    work = program(
        *loads,
        sums(loop0=4, acc0=1, src0=1, init=1, pop_prev=1),
        sums(uop_begin=1, uop_end=2, loop1=4, acc1=1, src1=1),
        lookup(loop0=4, acc0=1, shift=31, emit=Emit.RAW, push_next=1),
        Store(x_size=16, pop_prev=1),
        config=TINY,
        uops=(MicroOp(first=1, last=1), MicroOp(last=1)),
    )
    assert covered(work) == {
        *(f"SAD {name}" for name in ("of 1 micro-ops", "of 2 to 4 iterations", "emits NONE", "pop_prev")),
        *(f"SAD {index} at the first" for index in ("acc", "src", "wgt")),
        *(f"SAD {factor} moves" for factor in ("acc0", "acc1", "src0", "src1")),
        *("SAD begins a sum", "SAD continues a sum", "SAD waits for a token from load"),
        *("SAD follows another kind", "SAD follows its own kind without draining"),
        *(f"LUT {name}" for name in ("of 1 micro-ops", "of 2 to 4 iterations", "emits RAW", "push_next")),
        *(
            "LUT.shift max",
            "LUT acc at the first",
            "LUT wgt at the first",
            "LUT acc0 moves",
            "LUT follows another kind",
        ),
    }


def test_random_programs_hit_most_goals():
    coverage = Coverage()
    for seed in range(10):
        work = random_verified_program(TINY, seed, 90)
        coverage.add(work, time_program(work))
    missing = [name for name in plug_ins.bins(TINY) if not coverage.counts[name]]
    assert len(missing) < len(plug_ins.bins(TINY)) // 5
    assert [name for name in coverage.missing([TINY]) if name.startswith(("SAD", "LUT", "MIX"))] == missing
