# SPDX-License-Identifier: Apache-2.0
"""The verifier against the compiler's tokens and the adversary, on random programs, by seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.hand_programs import PIPELINE, TINY, program
from helpers.seeds import seeds

from vdla.benchmarks.mutants import run
from vdla.compiler.codegen.vdla.tokens import QUEUES
from vdla.hardware.config import Dram
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_program
from vdla.simulator.verify import Kind, verify
from vdla.verification.adversary import Harm, attack
from vdla.verification.programs import suite
from vdla.verification.programs.mutation import KINDS, mutants
from vdla.verification.programs.random_programs import random_draft


def draft(seed, count):
    return random_draft(TINY, seed, count, longest=12)


def random_program(seed, count):
    """A random program with a minimal set of tokens."""
    chosen = draft(seed, count)
    return chosen.program(chosen.needed_tokens)


def token_edges(places):
    """(push, pop) of every token."""
    return [
        (push, pop)
        for source, target in QUEUES
        for push, pop in zip(
            _having(places, source, "pushes", target), _having(places, target, "pops", source), strict=True
        )
    ]


def without_token(places, rng):
    """The instructions without one push and its pop."""
    edges = token_edges(places)
    push, pop = edges[int(rng.integers(len(edges)))]
    changed = list(places)
    changed[push] = replace(places[push], pushes=places[push].pushes - {places[pop].unit})
    changed[pop] = replace(places[pop], pops=places[pop].pops - {places[push].unit})
    return changed


def _having(places, unit, what, other):
    return [k for k, place in enumerate(places) if place.unit == unit and other in getattr(place, what)]


@pytest.mark.parametrize("seed", range(24))
def test_programs_with_all_their_tokens_are_verified_and_safe(seed):
    good = random_program(seed, 50)
    assert verify(good).ok, str(verify(good))
    assert attack(good, seed).harm == Harm.NONE


@pytest.mark.parametrize("seed", seeds(range(40), 20))
def test_removing_any_token_is_a_race(seed):
    """The compiler's tokens are minimal: removing any one leaves two accesses unordered."""
    drafts = (draft(seed + 1000 * k, 50) for k in range(9))
    chosen = next(one for one in drafts if token_edges(one.needed_tokens))  # some need none
    fewer = without_token(chosen.needed_tokens, np.random.default_rng(seed))
    assert Kind.RACE in verify(chosen.program(fewer)).kinds()


@pytest.mark.parametrize("seed", range(5))
def test_a_verified_program_ends_on_the_timed_machine(seed):
    """Under any DRAM and with the smallest queues, or it is refused there as a deadlock."""
    drams = (Dram(), Dram(read_latency=1, write_latency=1), Dram(read_latency=999, outstanding_reads=1, burst_gap=9))
    good = random_program(seed, 50)
    for dram in drams:
        assert time_program(good, replace(TINY, dram=dram)).total_cycles > 0
    for mutant in mutants(good, 20, np.random.default_rng(seed)):
        if mutant.kind == "token" and Kind.ENCODING not in verify(mutant.program).kinds() and _hangs(mutant.program):
            assert Kind.DEADLOCK in verify(mutant.program).kinds()


def _hangs(candidate):
    try:
        time_program(candidate)
    except SimulationError:
        return True
    return False


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_a_program_that_the_adversary_harms_is_refused(seed):
    good = random_program(seed, 35)
    for mutant in mutants(good, 25, np.random.default_rng(seed)):
        verdict = verify(mutant.program)
        if Kind.ENCODING not in verdict.kinds() and verdict.ok:
            assert not attack(mutant.program, seed).harmful, f"seed {seed}: {mutant}"


@pytest.mark.parametrize("seed", seeds(range(20), 8))
def test_programs_with_many_mutations_get_a_verdict(seed):
    """Every mutated program gets a verdict, and a verified one is safe."""
    rng = np.random.default_rng(seed)
    broken = random_program(seed, 30)
    for _ in range(25):
        candidate = mutants(broken, 4, rng)[int(rng.integers(4))].program
        verdict = verify(candidate)
        assert isinstance(str(verdict), str)
        if Kind.ENCODING not in verdict.kinds():
            broken = candidate
            assert not (verdict.ok and attack(candidate, seed, count=2, most_items=1 << 16).harmful)


def test_random_words_are_refused():
    rng = np.random.default_rng(0)
    good = program(*PIPELINE)
    for _ in range(50):
        words = rng.integers(0, 256, good.words.shape, np.uint8)
        words[:, 0] = words[:, 0] & 0xF8 | rng.integers(1, 3, len(words)).astype(np.uint8)
        verdict = verify(replace(good, words=words, tensor_of=np.zeros(len(words), np.int32)))
        assert not verdict.ok


def test_the_suite_is_verified_and_safe():
    for built in suite.programs():
        verdict = verify(built)
        assert verdict.ok, str(verdict)
        assert verdict.warnings == ()
        assert attack(built).harm == Harm.NONE


def test_the_benchmark_counts_add_up():
    progress = []
    result = run(lambda *step: progress.append(step), count=60, programs=[program(*PIPELINE)])
    figures = result.figures
    assert figures["mutants"] == 60 == sum(figures[f"mutants_{kind.replace('-', '_')}"] for kind in KINDS)
    assert figures["missed"] == figures["false_alarms"] == figures["harmful_unchanged"] == 0
    assert 0 < figures["harmful"] <= figures["refused"] <= 60
    assert figures["harmful"] == sum(figures[f"harmful_{harm}"] for harm in ("hang", "bounds", "timing"))
    assert result.receipt["missed"] == []
    assert progress == [("hand", 0, 1), ("done", 1, 1)]


def test_the_benchmark_sees_a_refused_program_and_a_harmful_one():
    result = run(count=1, programs=[program(*PIPELINE[1:])])
    assert (result.figures["false_alarms"], result.figures["harmful_unchanged"]) == (1, 1)
    assert result.receipt["refused_unchanged"] == ["hand"]


def test_equal_seeds_give_equal_figures():
    again = [dict(run(seed=5, count=30, programs=[program(*PIPELINE)]).figures) for _ in range(2)]
    assert again[0] == again[1]


def test_a_mutant_differs_in_one_field():
    good = program(*PIPELINE)
    for mutant in mutants(good, 80, np.random.default_rng(3)):
        same = np.array_equal(mutant.program.columns, good.columns)
        assert same == (mutant.kind == "micro-op")
        assert same or (mutant.program.words != good.words).any(axis=1).sum() == 1
        assert str(mutant).startswith("hand: ")
