# SPDX-License-Identifier: Apache-2.0
"""Contiguous memory: addresses, windows, limits and the messages of refusals."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.boards.board import HIGH_DRAM_BASE
from vdla.boards.virtual.fabric import FabricError, MemoryWindow
from vdla.boards.virtual.memory import BASE_ADDRESS, LEFT_OVER, BoardMemory, MemoryRefusal
from vdla.boards.virtual.page_map import PageMap

PAGE = 4096


def refusal(function, *arguments) -> str:
    with pytest.raises(MemoryRefusal) as error:
        function(*arguments)
    return str(error.value)


def test_buffers_lie_on_pages_from_the_base_on_first_fit():
    memory = BoardMemory(4 * PAGE)
    first, second, third = (memory.allocate(size) for size in (1, PAGE, PAGE + 1))
    assert [b.address - BASE_ADDRESS for b in (first, second, third)] == [0, PAGE, 2 * PAGE]
    memory.free(second.identifier)
    assert memory.allocate(7).address == BASE_ADDRESS + PAGE


def test_the_windows_are_whole_pages_and_follow_every_change():
    memory, seen = BoardMemory(4 * PAGE), []
    memory.changed = seen.append
    buffer = memory.allocate(5)
    memory.free(buffer.identifier)
    assert seen == [(MemoryWindow(BASE_ADDRESS, PAGE, 0),), ()]


def test_a_buffer_has_bytes_of_others_as_on_a_board():
    memory = BoardMemory(PAGE)
    for _ in range(2):
        buffer = memory.allocate(PAGE)
        assert (memory.contents(buffer) == LEFT_OVER).all()
        memory.contents(buffer)[:] = 7
        memory.free(buffer.identifier)


def test_memory_may_lie_beyond_4_gib():
    memory = BoardMemory(4 * PAGE, HIGH_DRAM_BASE)
    first, second = memory.allocate(PAGE), memory.allocate(PAGE)
    assert (first.address, second.address) == (0x8_0000_0000, 0x8_0000_1000)
    assert memory.windows()[1] == MemoryWindow(0x8_0000_1000, PAGE, PAGE)


def test_a_full_memory_says_how_much_is_free():
    memory = BoardMemory(2 * PAGE)
    memory.allocate(PAGE)
    assert refusal(memory.allocate, PAGE + 1) == (
        "contiguous memory: cannot allocate 4097 bytes, 4096 of 8192 are free; "
        "free buffers or raise cma= on the kernel's command line"
    )
    memory.reserved = PAGE
    assert memory.free_bytes == 0
    assert refusal(memory.allocate, 1).startswith("contiguous memory: cannot allocate 1 bytes, 0 of 8192 are free")


def test_sizes_and_identifiers_that_cannot_be():
    memory = BoardMemory(PAGE)
    assert refusal(memory.allocate, 0) == "contiguous memory: size of a buffer must be at least 1, got 0"
    assert refusal(memory.free, "1") == "contiguous memory: buffer must be allocated, got '1'"
    assert len(refusal(memory.buffer, "x" * 1000)) < 120


def test_an_identifier_of_another_run_names_nothing():
    buffer = BoardMemory(PAGE).allocate(1)
    other = BoardMemory(PAGE)
    other.allocate(1)
    assert "must be allocated" in refusal(other.buffer, buffer.identifier)


def test_the_number_of_buffers_is_bounded(monkeypatch):
    monkeypatch.setattr("vdla.boards.virtual.memory.MOST_BUFFERS", 40)
    memory = BoardMemory(41 * PAGE)
    buffers = [memory.allocate(1) for _ in range(40)]
    assert refusal(memory.allocate, 1) == "contiguous memory: buffers must be at most 40, free some"
    memory.free(buffers[7].identifier)
    assert memory.allocate(1).offset == buffers[7].offset


# --- what the machine reaches ---------------------------------------------------------------------

WINDOWS = (MemoryWindow(0x3000, 0x1000, 0x2000), MemoryWindow(0x1000, 0x1000, 0), MemoryWindow(0x2000, 0x1000, 0x1000))
APART = (MemoryWindow(0x1000, 0x1000, 0), MemoryWindow(0x4000, 0x1000, 0x3000))


@pytest.mark.parametrize("windows", [WINDOWS, APART, ()], ids=["touching", "apart", "none"])
def test_ranges_are_held_as_byte_by_byte(windows):
    pages, rng = PageMap(windows), np.random.default_rng(1)
    begins = rng.integers(0xF00, 0x5100, 500)
    ends = begins + rng.integers(1, 0x900, 500)
    held = {at for w in windows for at in range(w.address, w.address + w.nbytes)}
    expected = [all(at in held for at in (*range(b, e, 256), e - 1)) for b, e in zip(begins, ends, strict=True)]
    assert pages.holds(begins, ends).tolist() == expected
    assert bool(windows) == any(expected)


def test_reach_ends_where_the_windows_do():
    pages = PageMap(APART)
    assert [pages.reach(at) for at in (0xFFF, 0x1000, 0x1FF0, 0x2000, 0x4FFF)] == [0, 0x1000, 0x10, 0, 1]
    assert PageMap(()).reach(5) == 0


def test_windows_with_two_shifts_are_refused():
    with pytest.raises(FabricError) as error:
        PageMap((MemoryWindow(0x1000, 0x1000, 0), MemoryWindow(0x3000, 0x1000, 0x1000)))
    assert str(error.value) == "fabric: windows must have one shift from addresses to places, got [4096, 8192]"
