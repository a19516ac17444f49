# SPDX-License-Identifier: Apache-2.0
"""Both fabrics give one answer: any words, any windows; equal registers, memory and errors.

Programs that end are compared to the last register and byte. After an error its code must agree and
its position nearly; the simulator knows the order of two errors only where they are apart.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.fabrics import BUSY, DONE, ERROR, open_bench

from vdla.hardware.config import Config
from vdla.hardware.program import STREAM, ProgramError
from vdla.verification.programs.mutation import mutants
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_programs import random_verified_program

pytestmark = pytest.mark.rtl

CONFIG = Config.preset("tiny")
SEEDS = range(1000, 1006)
MUTANTS = 6
HANG_S = 0.5
PROGRESS = [
    "DISPATCHED", "LOAD_STARTED", "LOAD_ENDED", "COMPUTE_STARTED", "COMPUTE_ENDED", "STORE_STARTED", "STORE_ENDED",
    "LOAD_COMMANDS", "COMPUTE_COMMANDS", "STORE_COMMANDS", "LOAD_TO_COMPUTE_TOKENS", "COMPUTE_TO_LOAD_TOKENS",
    "COMPUTE_TO_STORE_TOKENS", "STORE_TO_COMPUTE_TOKENS",
]  # fmt: skip


@pytest.fixture(scope="module")
def benches():
    found = [open_bench(kind, CONFIG) for kind in ("sim", "rtl")]
    yield found
    for bench in found:
        bench.fabric.close()


def both(benches, program, arrays, without: str | None = None, more: int = 0):
    """The registers of both after a run; `without` a window, with `more` words than there are."""
    found = []
    for bench in benches:
        address = bench.upload(program, arrays)[STREAM]
        if without is not None:
            bench.fabric.map([window for name, window in bench.windows.items() if name != without])
        bench.start(address, len(program) + more)
        bench.wait(while_busy=20)
        found.append(bench.registers())
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_verified_program_gives_equal_registers_and_memory(benches, seed):
    program = random_verified_program(CONFIG, seed, 60)
    sim, rtl = both(benches, program, random_arrays(program, seed))
    assert sim["STATUS"] == DONE
    assert sim == rtl
    assert np.array_equal(benches[0].memory, benches[1].memory)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_window_that_is_missing_is_the_same_error(benches, seed):
    program = random_verified_program(CONFIG, seed, 60)
    for tensor in program.tensors:
        sim, rtl = both(benches, program, random_arrays(program, seed), without=tensor.name)
        assert [sim[name] for name in ("STATUS", "ERROR", "INTERRUPT")] == [
            rtl[name] for name in ("STATUS", "ERROR", "INTERRUPT")
        ], (seed, tensor.name)
        assert abs(sim["ERROR_INDEX"] - rtl["ERROR_INDEX"]) <= 2, (seed, tensor.name)


@pytest.mark.parametrize("seed", SEEDS)
def test_words_that_are_missing_are_the_same_error(benches, seed):
    program = random_verified_program(CONFIG, seed, 60)
    sim, rtl = both(benches, program, random_arrays(program, seed), more=1 << 20)
    names = ("STATUS", "ERROR", "ERROR_INDEX", *PROGRESS)
    assert sim["STATUS"] == ERROR
    assert {name: sim[name] for name in names} == {name: rtl[name] for name in names}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_words_end_in_the_same_way(benches, seed):
    """A changed field: the program still ends, is invalid, leaves the memory or hangs."""
    program, seen = random_verified_program(CONFIG, seed, 60), set()
    for mutant in mutants(program, MUTANTS, np.random.default_rng(seed)):
        try:
            states = _ends(benches, mutant.program, random_arrays(program, seed))
        except ProgramError:  # the change is to an address beyond all memories
            continue
        assert states[0] == states[1], str(mutant)
        seen.add(states[0]["STATUS"])
    assert seen


def _ends(benches, program, arrays) -> list[dict[str, int]]:
    """What must agree of both machines after a run that ends, or does not."""
    found = []
    for bench in benches:
        bench.start(bench.upload(program, arrays)[STREAM], len(program))
        status = bench.wait(while_busy=HANG_S)
        names = ["STATUS", "ERROR", *(PROGRESS if not status & ERROR else [])]
        found.append({name: bench.read(name) for name in names})
        if status & BUSY:
            bench.reset()
    return found
