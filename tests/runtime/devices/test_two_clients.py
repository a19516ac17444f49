# SPDX-License-Identifier: Apache-2.0
"""Two clients on one board: a run of either ends with its result, or says that it was not alone.

The machine is that of the virtual board. Accesses of the clients are interleaved one by one: each
foreign access at each place of a run, whole runs within runs, and random orders. With the client of
PYNQ, `test_pynq_clients.py` has the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest
from helpers.seeds import long_count
from helpers.shared_board import Interleaved, SharedBoard
from helpers.sole_runs import OURS, PROGRAM, THEIRS, TINY, outcome

from vdla.boards.virtual.fabric import BusError
from vdla.hardware.config import Config
from vdla.hardware.generate.registers import OFFSETS
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.board_driver import TakenError
from vdla.runtime.devices.run import run

OTHER = Config.preset("int4")


@pytest.fixture
def board(monkeypatch):
    monkeypatch.setattr("vdla.runtime.devices.completion._MOST_PAUSE_S", 0)  # between two polls
    return SharedBoard(TINY)


@pytest.fixture
def clients(board, monkeypatch):
    with board.device("a", monkeypatch, TINY) as ours, board.device("b", monkeypatch, TINY) as theirs:
        yield ours, theirs


def trace(board, device) -> list[int]:
    """The offsets that a run of client a accesses, one after the other."""
    made: list[int] = []
    board.before = lambda client, offset: made.append(offset)
    assert outcome(device) == "right"
    board.before = lambda client, offset: None
    return made


def places(offsets: list[int]) -> list[int]:
    """All places in a run but those between two reads of identity, counters or cycles."""
    changing = {OFFSETS[name] for name in ("STATUS", "CONTROL", "INTERRUPT", "COUNT", "STREAM_LO", "STREAM_HI")}
    inside = [i for i in range(1, len(offsets) - 1) if not changing & set(offsets[i - 1 : i + 2])]
    return sorted(set(range(len(offsets))) - set(inside))


def at(board, place: int, action: Callable[[], object]) -> None:
    """Have an action before one access of client a, counted from 0."""
    passed = count()
    board.before = lambda client, offset: action() if client == "a" and next(passed) == place else None


def write(name: str, value: int) -> Callable[[SharedBoard], None]:
    """A write to a register, which the machine may refuse."""

    def action(board: SharedBoard) -> None:
        with suppress(BusError):
            board.fabric.write_word(OFFSETS[name], value)

    return action


def overwrite(board: SharedBoard) -> None:
    """Other bytes in the memory of the stream that is set up."""
    address = board.fabric.read_word(OFFSETS["STREAM_LO"])
    for each in board.memory.buffers:
        if each.address == address:
            board.memory.contents(each)[:4] ^= 0xFF


def start_long(board: SharedBoard) -> None:
    """A stream of another client that takes long."""
    board.busy = 1000
    board.download(TINY)
    write("CONTROL", 1)(board)


FOREIGN: dict[str, Callable[[SharedBoard], None]] = {
    "another stream": write("STREAM_LO", 0x16800000),
    "a stream beyond 4 GiB": write("STREAM_HI", 1),
    "fewer instructions": write("COUNT", 3),
    "no instructions": write("COUNT", 0),
    "another latency": write("READ_LATENCY", 7),
    "fewer reads": write("READ_LIMIT", 1),
    "fewer writes": write("WRITE_LIMIT", 1),
    "no interrupt": write("INTERRUPT", 0),
    "the interrupt is taken": write("INTERRUPT", 3),
    "a start": write("CONTROL", 1),
    "a reset": write("CONTROL", 2),
    "the same bitstream": lambda board: board.download(TINY),
    "another bitstream": lambda board: board.download(OTHER),
    "the memory of the stream": overwrite,
}
HARMLESS = {"the interrupt is taken"}  # the machine is polled then


def require_right_or_sentence(board, device, every: bool, action: Callable[[], object]) -> set[str]:
    """What comes of runs with an action at each place of theirs; the next run is always right."""
    offsets, found = trace(board, device), set()
    for place in range(len(offsets)) if every else places(offsets):
        at(board, place, action)
        found.add(outcome(device))
        board.before = lambda client, offset: None
        if board.config is not TINY:
            board.download(TINY)
        board.fabric.settle()
        assert outcome(device) == "right", place
    return found


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    ["another stream", "no instructions", "the interrupt is taken", "a start", "a reset", "another bitstream",
     "the memory of the stream"],
)  # fmt: skip
def test_one_foreign_access_at_any_place_of_a_run(board, clients, name):
    found = require_right_or_sentence(board, clients[0], False, lambda: FOREIGN[name](board))
    assert (found == {"right"}) == (name in HARMLESS), found


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("name", FOREIGN)
def test_one_foreign_access_at_every_place_of_a_run(board, clients, name):
    found = require_right_or_sentence(board, clients[0], True, lambda: FOREIGN[name](board))
    assert (found == {"right"}) == (name in HARMLESS), found


def test_a_whole_run_of_another_client_at_any_place_of_a_run(board, clients):
    ours, theirs = clients
    foreign: list[str] = []
    found = require_right_or_sentence(board, ours, False, lambda: foreign.append(outcome(theirs, THEIRS)))
    assert len(found) > 1 and len(set(foreign)) > 1 and "right" in found & set(foreign)


def test_another_client_that_opens_the_board_at_any_place_of_a_run(board, clients, monkeypatch):
    def action() -> None:
        board.device("c", monkeypatch, TINY).close()

    board.busy = 20
    board.download(TINY)
    found = require_right_or_sentence(board, clients[0], False, action)
    assert "a reset of the machine" in found


ORDERS = [pytest.param(20, marks=pytest.mark.short), pytest.param(long_count(400), marks=pytest.mark.long)]


@pytest.mark.parametrize("orders", ORDERS)
def test_random_orders_of_two_runs(board, clients, orders):
    ours, theirs = clients
    found: set[str] = set()
    for seed in range(orders):
        rng = random.Random(seed)
        board.busy = rng.choice([1, 3, 30])
        board.download(TINY)
        other = Interleaved(lambda: found.add(outcome(theirs, THEIRS)))
        board.before = alternating(rng, other)
        found.add(outcome(ours))
        other.advance(1 << 30)
        board.before = lambda client, offset: None
        board.fabric.settle()
        assert outcome(ours) == outcome(theirs, THEIRS) == "right", seed
    assert "right" in found and len(found) > 3


def alternating(rng: random.Random, other: Interleaved) -> Callable[[str, int], None]:
    """Before some accesses of client a, b makes some of its own."""
    share, most = rng.choice([0.1, 0.5, 1]), rng.choice([1, 3, 60])

    def before(client: str, offset: int) -> None:
        if client == "b":
            other.wait()
        elif rng.random() < share:
            other.advance(rng.randint(1, most))

    return before


def test_memory_that_is_handed_out_twice_is_refused(board, clients):
    device = clients[0]
    first = device.allocate(8192)
    again = board.memory.buffers[-1]
    board.memory.allocate = lambda nbytes: again
    with pytest.raises(DeviceError) as error:
        device.allocate(8192)
    assert str(error.value) == (
        f"device pynq: contiguous memory must be handed out once, got {first:#x} again; "
        "restart the server of PYNQ.remote on the board"
    )


@pytest.mark.parametrize(
    ("access", "action", "got"),
    [
        ("STATUS", start_long, "a machine that runs the stream of another one"),
        ("READ_LATENCY", write("STREAM_HI", 1), "0x1 in register STREAM_HI in place of 0x0"),
        ("CYCLES_LO", write("CONTROL", 2), "0x0 in register STATUS in place of 0x2"),
        ("CYCLES_LO", write("COUNT", 3), "0x3 in register COUNT in place of 0x0"),
        ("CYCLES_LO", overwrite, "other instructions in the memory of the stream, at 0x1680a000"),
    ],
)
def test_the_sentence_says_what_was_found_and_what_to_do(board, clients, access, action, got):
    once = iter([action])
    board.before = lambda client, offset: offset == OFFSETS[access] and next(once, lambda board: None)(board)
    with pytest.raises(TakenError) as error:
        run(PROGRAM, OURS, clients[0])
    assert str(error.value) == (
        f"device pynq: board must have one client during a run, got {got}; the run has no result: "
        "end the other client, or let all of them use one vdla board serve --listen, and run again"
    )
