# SPDX-License-Identifier: Apache-2.0
"""Random schedules of small problems: any primitive at any loop, replayable by seed.

A refused primitive leaves the schedule unchanged; `done` lists the accepted ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from helpers import schedule_problems
from helpers.schedule_problems import Problem
from vdla.compiler import ir
from vdla.compiler.codegen.vdla.allocate import AllocationError
from vdla.compiler.codegen.vdla.compile import compile_function
from vdla.compiler.codegen.vdla.macro_op import BuildError
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.codegen.vdla.uops import UopError
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.tensorize import Intrinsic, TensorizeError
from vdla.hardware.isa import IsaError
from vdla.simulator.simulate import simulate
from vdla.simulator.verify import verify

REFUSALS = (ScheduleError, TensorizeError, LoweringError, AllocationError, UopError, BuildError, IsaError)
STEPS = {"split": 5, "order": 5, "fuse": 1, "place": 6, "results": 5, "once": 3, "store_at": 3, "marks": 3}


@dataclass
class Case:
    """A problem under a random schedule."""

    seed: int
    problem: Problem
    schedule: Schedule
    stages: dict[str, Intrinsic]
    ends: tuple[str, str] = ("results", "output")  # the results, and their copy in DRAM
    done: list[str] = field(default_factory=list)

    def attempt(self, step: str, *args: object) -> object:
        """The result of a primitive, or None if it is refused."""
        try:
            result = getattr(self.schedule, step)(*args)
        except ScheduleError:
            return None
        self.done.append(f"{step}{args}")
        return result

    def loops(self, block: str) -> list[str]:
        """The loops around entries of a block."""
        return self.schedule.loops(block)[: -entry_loops(self.stages[block])]

    def __str__(self) -> str:
        return f"seed {self.seed}:\n" + "\n".join(self.done) + f"\n{self.schedule.fn}"


def entry_loops(intrinsic: Intrinsic) -> int:
    """The loops of one entry."""
    return sum(isinstance(s, ir.For) and not s.var.startswith("step") for s in ir.walk(intrinsic.behaviour.body))


def random_case(seed: int) -> Case:
    """A problem with its tensors cached on chip, after up to two dozen random primitives."""
    rng = random.Random(seed)
    problem = schedule_problems.problem(rng)
    case = Case(seed, problem, Schedule(problem.fn), dict(problem.stages))
    for stage, intrinsic in problem.stages.items():
        if stage != "output":
            case.attempt("set_scope", stage, intrinsic.scopes[intrinsic.output.name])
    if rng.random() < 0.3:
        _results_by_cache_write(case)
    caches = list(problem.copies.items())
    for stage in case.stages:
        _entries_last(case, stage)
    for number in range(rng.randint(0, 24)):
        if caches and (number == 0 or rng.random() < 0.5):
            _cache(case, *caches.pop())
        _random_step(rng, case)
    for copied, intrinsic in caches:
        _cache(case, copied, intrinsic)
    for stage in case.stages:
        _entries_last(case, stage)
    return case


def _results_by_cache_write(case: Case) -> None:
    """Turns the results into a cache of the output instead of a stage."""
    case.attempt("inline", "results")
    copy = str(case.attempt("cache_write", "output", "out"))
    case.stages[copy] = case.stages.pop("output")
    case.stages["output"] = case.stages.pop("results")
    case.ends = ("output", copy)


def _cache(case: Case, copied: tuple[str, str], intrinsic: Intrinsic) -> None:
    reader = case.ends[0] if copied[0] == "results" else copied[0]
    copy = case.schedule.cache_read(reader, copied[1], intrinsic.scopes[intrinsic.output.name])
    case.done.append(f"cache_read{copied}")
    case.stages[copy] = intrinsic


def _entries_last(case: Case, stage: str) -> None:
    """Moves the whole loops of an entry innermost, whatever reductions the stage has."""
    block = _block(case, stage)
    last = [axis.var for axis in block.axes if axis.kind is ir.AxisKind.SPATIAL][-2:]
    if stage.startswith("weight"):
        case.attempt("full_extent", stage, *last)
    if stage == "sums":
        values = dict(zip([axis.var for axis in block.axes], block.values, strict=True))
        driven = [values[axis] for axis in (*last, "vi") if axis in values]
        entry = [value.name for value in driven if isinstance(value, ir.Var)]
        loops = case.schedule.loops(stage)
        own = loops[min(map(loops.index, entry), default=len(loops)) :]
        case.attempt("reorder", *(loop for loop in own if loop not in entry), *entry)


def _block(case: Case, name: str) -> ir.Block:
    return next(b for b in ir.walk(case.schedule.fn.body) if isinstance(b, ir.Block) and b.name == name)


def _random_step(rng: random.Random, case: Case) -> None:
    """Attempts one primitive at a random place."""
    block = rng.choice([*case.stages, "sums"] if "sums" in case.stages else [*case.stages])
    loops = case.loops(block)
    step = rng.choices(list(STEPS), list(STEPS.values()))[0]
    if step == "place":
        _place(rng, case)
    elif step == "results":
        _place_results(rng, case)
    elif step == "store_at":
        case.attempt("store_at", block, rng.choice([None, *loops]))
    elif loops:
        _at_loops(rng, case, step, block, loops)


def _at_loops(rng: random.Random, case: Case, step: str, block: str, loops: list[str]) -> None:
    loop, position = rng.choice(loops), rng.randrange(len(loops))
    match step:
        case "split":
            case.attempt("split", loop, rng.randint(1, 4))
        case "order":
            case.attempt("reorder", *rng.sample(loops, rng.randint(1, len(loops))))
        case "fuse":
            case.attempt("fuse", *loops[position : position + 2])
        case "once":
            case.attempt("compute_once", block, *rng.sample(loops, rng.randint(1, min(2, len(loops)))))
        case _:
            case.attempt(rng.choice(["vthread", "vthread", "unroll"]), loop)


def _place(rng: random.Random, case: Case) -> None:
    """Moves a random producer to a loop of a consumer."""
    block = rng.choice([b for b in case.stages if b not in case.ends])
    loops = case.loops(rng.choice(list(case.stages)))
    if loops:
        case.attempt("compute_at", block, rng.choice(loops))


def _place_results(rng: random.Random, case: Case) -> None:
    """Moves the results to a loop of their sums, or the output to a loop of the results."""
    block = rng.choice(case.ends)
    before = list(case.problem.stages)
    producer = before[before.index("results") - 1] if block == case.ends[0] else case.ends[0]
    loops = case.loops(producer)
    if loops:
        case.attempt("reverse_compute_at", block, rng.choice(loops))


# --- property -------------------------------------------------------------------------------------


def refusal(case: Case) -> Exception | None:
    """Checks program and results of the case; returns the error if the compiler refuses it."""
    try:
        for stage, intrinsic in case.stages.items():
            loop = case.schedule.loops(stage)[-entry_loops(intrinsic)]
            case.schedule.tensorize(loop, intrinsic)
        program = compile_function(case.problem.config, case.schedule.fn)
    except REFUSALS as error:
        return error
    verify(program).raise_if_bad()
    found = simulate(program, case.problem.arrays).outputs["output"]
    meant = interpret(case.schedule.fn, case.problem.arrays)["output"]
    np.testing.assert_array_equal(meant, case.problem.expected, err_msg=f"the schedule's meaning, {case}")
    np.testing.assert_array_equal(found, case.problem.expected, err_msg=f"the program's results, {case}")
    return None
