# SPDX-License-Identifier: Apache-2.0
"""Tokens against an independent happens-before: sufficient, minimal, bounded in flight."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from helpers.token_model import Edge, ends_before, most_in_flight, tokens_of
from helpers.work import lines_executed

from vdla.compiler.codegen.vdla import tokens
from vdla.compiler.codegen.vdla.dependences import NEVER, Touch, UnitOp, dependences
from vdla.compiler.codegen.vdla.tokens import IssuedOp, assign_tokens
from vdla.hardware.config import MIN_TOKEN_DEPTH, Buffer
from vdla.hardware.isa import Unit

LOAD, COMPUTE, STORE = Unit.LOAD, Unit.COMPUTE, Unit.STORE
NONE: frozenset[Unit] = frozenset()
MANY = 10_000


# --- check ----------------------------------------------------------------------------------------


def conflicts(steps: list[UnitOp]) -> list[Edge]:
    """All pairs of operations of different units that touch an entry, one of them writing."""

    def entries(touch: Touch) -> set[int]:
        return set(np.arange(MANY)[touch.where].tolist())

    def conflict(a: UnitOp, b: UnitOp) -> bool:
        return any(
            x.space == y.space and (x.writes or y.writes) and entries(x) & entries(y)
            for x in a.touches
            for y in b.touches
        )

    pairs = combinations(range(len(steps)), 2)
    return [(a, b) for a, b in pairs if steps[a].unit != steps[b].unit and conflict(steps[a], steps[b])]


def broken(steps: list[UnitOp], places: tuple[IssuedOp, ...], edges: list[Edge]) -> list[Edge]:
    at = {place.op: index for index, place in enumerate(places)}
    ordered = ends_before(places, edges)
    return [(a, b) for a, b in conflicts(steps) if not ordered[at[a], at[b]]]


def check(steps: list[UnitOp], depth: int = MIN_TOKEN_DEPTH) -> tuple[IssuedOp, ...]:
    places = assign_tokens(steps, depth)
    assert [place.op for place in places if place.op is not None] == list(range(len(steps)))
    assert all(place.unit == steps[place.op].unit for place in places if place.op is not None)
    assert all(abs(place.unit - other) == 1 for place in places for other in place.pops | place.pushes)
    assert broken(steps, places, tokens_of(places)) == []
    assert most_in_flight(places) <= depth
    return places


def check_minimal(steps: list[UnitOp], places: tuple[IssuedOp, ...]) -> None:
    edges = tokens_of(places)
    for edge in edges:
        assert broken(steps, places, [other for other in edges if other != edge]), f"{edge} is not needed"


# --- shorthand ------------------------------------------------------------------------------------


def load(*entries: int, tensor: str | None = None) -> UnitOp:
    touches = [Touch(Buffer.INP, np.array(entries, int), True)]
    return UnitOp(LOAD, (*touches, *([Touch(tensor, slice(0, 4), False)] if tensor else [])))


def gemm(*entries: int, out: tuple[int, ...] = ()) -> UnitOp:
    return UnitOp(
        COMPUTE, (Touch(Buffer.INP, np.array(entries, int), False), Touch(Buffer.OUT, np.array(out, int), True))
    )


def store(*entries: int, tensor: str | None = None) -> UnitOp:
    touches = [Touch(Buffer.OUT, np.array(entries, int), False)]
    return UnitOp(STORE, (*touches, *([Touch(tensor, slice(2, 6), True)] if tensor else [])))


def text(places: tuple[IssuedOp, ...]) -> list[str]:
    def names(units: frozenset[Unit]) -> str:
        return "".join(unit.name[0] for unit in sorted(units))

    return [f"{names(p.pops)}>{p.unit.name.lower() if p.op is not None else 'sync'}>{names(p.pushes)}" for p in places]


# --- dependences ----------------------------------------------------------------------------------


def test_dependences_name_the_last_conflict_of_each_unit():
    steps = [load(0, 1), load(2), gemm(0, 2, out=(5,)), store(5), gemm(1, out=(5,)), load(1)]
    assert dependences(steps).tolist() == [
        [NEVER, NEVER, NEVER],
        [NEVER, NEVER, NEVER],
        [1, NEVER, NEVER],
        [NEVER, 2, NEVER],
        [0, NEVER, 3],
        [NEVER, 4, NEVER],
    ]


def test_two_reads_are_independent():
    read = Touch("x", slice(0, 8), False)
    write = Touch("x", slice(8, 9), True)
    assert (
        dependences([UnitOp(LOAD, (write,)), UnitOp(LOAD, (read,)), UnitOp(COMPUTE, (read,))])[2].tolist()
        == [NEVER] * 3
    )


def test_memory_grows_with_the_touched_entries_only():
    def touch(first: int, writes: bool) -> Touch:
        return Touch("t", np.array([first, first + (1 << 39)]), writes)

    steps = [UnitOp(STORE, (touch(5, True),)), UnitOp(LOAD, (touch(6, False),)), UnitOp(LOAD, (touch(5, False),))]
    steps.append(UnitOp(COMPUTE, (Touch("t", slice(1 << 39, (1 << 39) + 6), False),)))
    assert dependences(steps)[:, STORE].tolist() == [NEVER, NEVER, 0, 0]


def test_empty_touches_cause_no_dependence():
    empty = Touch(Buffer.INP, np.array([], np.int64), False)
    assert (dependences([load(0), UnitOp(COMPUTE, (empty,))]) == NEVER).all()


# --- hand-written lists ---------------------------------------------------------------------------


def test_units_that_share_one_tile_alternate():
    places = check([load(0), gemm(0, out=(0,)), store(0)] * 2)
    assert text(places) == [">load>C", "L>compute>LS", "C>store>C", "C>load>C", "LS>compute>S", "C>store>"]


def test_a_double_buffer_needs_one_token_per_tile_and_direction():
    steps = [load(0), load(1)]
    for tile in (0, 1, 0, 1):
        steps += [gemm(tile), load(tile)]
    assert text(check(steps)) == [
        ">load>C",
        ">load>C",
        *["L>compute>L", "C>load>C"] * 2,
        *["L>compute>L", "C>load>"] * 2,
    ]


def test_consecutive_loads_share_one_token():
    assert text(check([load(0), load(1), gemm(0, 1)])) == [">load>", ">load>C", "L>compute>"]


def test_a_covered_dependence_needs_no_token():
    assert text(check([load(0), gemm(0), gemm(0)])) == [">load>C", "L>compute>", ">compute>"]


def test_compute_pops_from_load_and_store_if_it_depends_on_both():
    shared = Touch("shared", slice(0, 1), True)
    steps = [load(0), UnitOp(STORE, (shared,)), UnitOp(COMPUTE, (shared, Touch(Buffer.INP, slice(0, 1), False)))]
    assert text(check(steps)) == [">load>C", ">store>C", "LS>compute>"]


def test_reuse_of_results_waits_for_the_store():
    steps = [gemm(0, out=(0,)), store(0), gemm(0, out=(1,)), store(1), gemm(0, out=(0,))]
    assert text(check(steps)) == [">compute>S", "C>store>C", ">compute>S", "C>store>", "S>compute>"]


def test_a_load_of_stored_data_is_ordered_by_a_sync():
    places = check([gemm(0, out=(0,)), store(0, tensor="t"), load(0, tensor="t")])
    assert text(places) == [">compute>S", "C>store>C", "S>sync>L", "C>load>"]
    assert places[2] == IssuedOp(None, COMPUTE, frozenset({STORE}), frozenset({LOAD}))


def test_a_load_of_stored_data_reuses_an_earlier_wait_of_compute():
    steps = [gemm(out=(0,)), store(0, tensor="t"), gemm(out=(0,)), gemm(out=(7,)), load(0, tensor="t")]
    assert text(check(steps)) == [">compute>S", "C>store>C", "S>compute>L", ">compute>", "C>load>"]


def test_a_store_over_loaded_data_is_ordered_by_the_compute_between():
    steps = [load(0, tensor="t"), gemm(0, out=(0,)), store(0, tensor="t")]
    assert text(check(steps)) == [">load>C", "L>compute>S", "C>store>"]


def test_a_store_over_data_of_an_unrelated_load_is_ordered_by_a_sync():
    steps = [gemm(out=(0,)), load(9, tensor="t"), store(0, tensor="t")]
    assert text(check(steps)) == [">compute>", ">load>C", "L>sync>S", "C>store>"]


def test_slices_and_index_arrays_are_equivalent():
    as_slice = UnitOp(COMPUTE, (Touch(Buffer.INP, slice(3, 5), False),))
    assert assign_tokens([load(4), as_slice]) == assign_tokens([load(4), gemm(3, 4)])
    assert assign_tokens([load(5), as_slice])[0].pushes == NONE


def test_no_operations_need_no_tokens():
    assert assign_tokens([]) == ()


# --- tokens in flight -----------------------------------------------------------------------------


def test_tokens_that_would_not_fit_are_merged():
    steps = [load(i) for i in range(9)] + [gemm(i) for i in range(9)]
    assert sum(len(place.pushes) for place in check(steps, depth=16)) == 9
    places = check(steps, depth=2)
    assert sum(len(place.pushes) for place in places) == 2
    assert [place.op for place in places] == list(range(18)), "merging inserts nothing"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_tokens_in_flight_stay_within_the_depth(depth):
    for seed in range(60):
        check(random_steps(seed, 24), depth)


# --- random lists ---------------------------------------------------------------------------------


def random_steps(seed: int, count: int, entries: int = 6, *, relays: bool = True) -> list[UnitOp]:
    rng = np.random.default_rng(seed)

    def some() -> tuple[int, ...]:
        return tuple(rng.choice(entries, rng.integers(1, 4), replace=False).tolist())

    def step() -> UnitOp:
        tensor = [None, None, None, "t"][rng.integers(4)] if relays else None
        match rng.integers(3):
            case 0:
                return load(*some(), tensor=tensor)
            case 1:
                return gemm(*some(), out=some() if rng.integers(2) else ())
            case _:
                return store(*some(), tensor=tensor)

    return [step() for _ in range(count)]


def test_random_lists_are_ordered_by_a_minimal_set_of_tokens():
    for seed in range(120):
        print(f"seed {seed}")
        steps = random_steps(seed, 18)
        check_minimal(steps, check(steps, depth=MANY))


@pytest.mark.parametrize("depth", [1, 2, MANY])
def test_lists_that_need_no_relays_get_the_tokens_of_the_walk(depth, monkeypatch):
    lists = [random_steps(seed, 40, relays=False) for seed in range(60)]
    found = [check(steps, depth) for steps in lists]
    monkeypatch.setattr(tokens, "_needs_relays", lambda unit, bounds: True)
    assert found == [assign_tokens(steps, depth) for steps in lists]


def test_random_lists_on_one_space_of_all_units_get_minimal_tokens():
    """The machine has no space that every unit accesses, but the algorithm allows one."""
    for seed in range(60):
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        steps = [
            UnitOp(Unit(int(rng.integers(3))), (Touch("x", rng.choice(5, 2, replace=False), bool(rng.integers(2))),))
            for _ in range(16)
        ]
        check_minimal(steps, check(steps, depth=MANY))
        check(steps, depth=1)


def test_the_independent_model_sees_a_missing_token():
    steps = [load(0), gemm(0)]
    assert broken(steps, (IssuedOp(0, LOAD, NONE, NONE), IssuedOp(1, COMPUTE, NONE, NONE)), []) == [(0, 1)]


def overlapping_steps(tiles):
    rng = np.random.default_rng(1)
    steps = []
    for _ in range(tiles):
        tile = int(rng.integers(4))
        wide = np.arange(2048) * 2 + tile % 2 + 4096 * (tile // 2)
        steps.append(UnitOp(LOAD, (Touch(Buffer.INP, slice(4096 * (tile // 2), 4096 * (tile // 2) + 2048), True),)))
        steps.append(UnitOp(LOAD, (Touch(Buffer.WGT, wide, True),)))
        reads = (Touch(Buffer.INP, wide, False), Touch(Buffer.WGT, wide, False), Touch(Buffer.OUT, wide, True))
        steps.append(UnitOp(COMPUTE, reads))
        steps.append(UnitOp(STORE, (Touch(Buffer.OUT, wide, False),)))
    return steps


def test_the_work_of_assigning_tokens_is_linear():
    def work(tiles):
        steps = overlapping_steps(tiles)
        return lines_executed(lambda: assign_tokens(steps))

    assert work(240) < 4.4 * work(60)


def test_equal_needs_get_their_tokens_once() -> None:
    units, needs = np.array([Unit.LOAD, Unit.COMPUTE]), np.array([[NEVER] * 3, [0, NEVER, NEVER]])
    issued = tokens.issue(units, needs)
    assert tokens.issue(units.copy(), needs.copy()) is issued
    assert issued.pushes.tolist() == [1 << Unit.COMPUTE, 0]
    needs[1, 0] = NEVER
    assert tokens.issue(units, needs).pushes.tolist() == [0, 0]
