# SPDX-License-Identifier: Apache-2.0
"""The note on a board of who uses it: what it keeps, whatever others write into it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.hardware.config import Config
from vdla.runtime.devices import client_entry
from vdla.runtime.devices.board_link import BoardLink
from vdla.runtime.devices.board_note import PATH, UPTIME, BoardNote, NotedBitstream, NotedClient, printable, uptime_s
from vdla.runtime.devices.client_entry import ClientEntry, note_files

TINY = Config.preset("tiny")
BITSTREAM = NotedBitstream(
    file="tiny-0123.bin",
    machine="tiny",
    fingerprint=TINY.fingerprint,
    client="ada@pc, process 7",
    at_s=12.5,
    clock_mhz=50.0,
)
CLIENT = NotedClient(
    key="k1",
    client="ada@pc, process 7",
    machine="tiny",
    file="tiny-0123.bin",
    memory_bytes=4096,
    since_s=12.5,
    seen_s=20.0,
)
NOTE = BoardNote(BITSTREAM, (CLIENT, replace(CLIENT, key="k2", since_s=13.0)))


class Files:
    """Files of a board whose clock stands at `uptime`."""

    def __init__(self, uptime: float = 100.0) -> None:
        self.contents = {UPTIME: f"{uptime} 0.0\n".encode()}
        self.writes = 0

    def read(self, path: str) -> bytes:
        return self.contents.get(path, b"")

    def write(self, path: str, content: bytes) -> None:
        self.writes += 1
        self.contents[path] = content

    @property
    def note(self) -> BoardNote:
        return BoardNote.parse(self.read(PATH))


class Refusing(Files):
    """A board that lets nobody write."""

    def write(self, path: str, content: bytes) -> None:
        self.writes += 1
        raise PermissionError(path)


def entry(files: Files | None, config: Config = TINY) -> ClientEntry:
    return ClientEntry(BoardLink("device pynq"), files, config, "tiny-0123.bin")


# --- the file -------------------------------------------------------------------------------------


def test_what_is_written_is_read_back() -> None:
    assert BoardNote.parse(NOTE.render()) == NOTE
    assert BoardNote.parse(BoardNote().render()) == BoardNote()


def test_a_client_has_one_entry_and_leaves_none() -> None:
    seen = replace(CLIENT, seen_s=30.0)
    assert NOTE.with_client(seen).clients == (seen, NOTE.clients[1])
    assert NOTE.without("k1").clients == NOTE.clients[1:]


def test_the_note_keeps_the_clients_that_were_seen_last() -> None:
    note = BoardNote()
    for number in range(40):
        note = note.with_client(replace(CLIENT, key=str(number), seen_s=float(100 - number)))
    assert sorted(int(client.key) for client in note.clients) == list(range(16))


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"null", b"[" * 100000, b'{"clients": 3}'])
def test_what_is_no_note_is_an_empty_one(content: bytes) -> None:
    assert BoardNote.parse(content) == BoardNote()


@pytest.mark.parametrize(
    "change",
    [{"seen_s": "now"}, {"seen_s": -1}, {"seen_s": 1e300}, {"memory_bytes": True}, {"client": 3}, {"more": 1}],
)
def test_an_entry_of_another_form_is_left_out(change: dict[str, object]) -> None:
    document = json.loads(NOTE.render())
    document["clients"][0] |= change
    assert BoardNote.parse(json.dumps(document).encode()) == replace(NOTE, clients=NOTE.clients[1:])


def test_texts_of_others_do_no_harm_on_a_terminal() -> None:
    hostile = replace(CLIENT, client="\x1b[2Jada\n" + "x" * 500)
    (parsed,) = BoardNote.parse(BoardNote(clients=(hostile,)).render()).clients
    assert parsed.client == "?[2Jada?" + "x" * 112
    assert printable("ada@pc") == "ada@pc"


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["clients", "bitstream", "client", "key"]), inner),
)


@given(json_values)
def test_no_document_is_an_error(document: object) -> None:
    BoardNote.parse(BoardNote.parse(json.dumps(document).encode()).render())


@pytest.mark.parametrize(("content", "seconds"), [(b"12.50 3.1\n", 12.5), (b"", None), (b"up", None)])
def test_uptime(content: bytes, seconds: float | None) -> None:
    assert uptime_s(content) == seconds


# --- the entry of a device ------------------------------------------------------------------------


def test_a_device_writes_bitstream_and_entry_and_removes_the_latter() -> None:
    files = Files(100.0)
    ours = entry(files)
    ours.open(loaded=True)
    (client,) = files.note.clients
    assert files.note.bitstream == replace(BITSTREAM, client=client.client, at_s=100.0, clock_mhz=0.0)
    ours.clocked(25.0)
    assert files.note.bitstream == replace(BITSTREAM, client=client.client, at_s=100.0, clock_mhz=25.0)
    ours.clocked(None)
    assert files.note.bitstream.clock_mhz == 0.0
    assert (client.machine, client.file, client.memory_bytes, client.since_s) == ("tiny", "tiny-0123.bin", 0, 100.0)
    assert client.seen_s == pytest.approx(100.0, abs=5.0)
    ours.close()
    assert files.note.clients == () and files.note.bitstream is not None


def test_a_device_that_takes_the_bitstream_as_loaded_does_not_claim_it() -> None:
    files = Files()
    files.write(PATH, NOTE.render())
    entry(files).open(loaded=False)
    assert files.note.bitstream == BITSTREAM and len(files.note.clients) == 3


def test_a_run_writes_the_entry_again_after_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files()
    ours = entry(files)
    ours.open(loaded=True)
    ours.run(4096)
    ours.run(8192)
    assert files.writes == 2 and files.note.clients[0].memory_bytes == 4096
    monkeypatch.setattr(client_entry, "_AGAIN_S", 0.0)
    ours.run(8192)
    assert files.writes == 3 and files.note.clients[0].memory_bytes == 8192


def test_a_run_restores_an_entry_that_another_client_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files()
    ours = entry(files)
    ours.open(loaded=True)
    files.write(PATH, NOTE.render())
    ours.run(0)
    assert len(files.note.clients) == 3


def test_a_board_that_refuses_the_note_is_asked_once() -> None:
    files = Refusing()
    ours = entry(files)
    ours.open(loaded=True)
    ours.run(0)
    ours.close()
    assert files.writes == 1


def test_a_computer_that_is_no_board_keeps_no_note() -> None:
    assert note_files(None, remote=False) is None
    entry(None).open(loaded=True)


def test_a_board_keeps_the_note_in_its_own_files(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(client_entry, "IMAGE", tmp_path)
    files = note_files(None, remote=False)
    path = str(tmp_path / "note.json")
    assert files.read(path) == b""
    files.write(path, b"x")
    assert files.read(path) == b"x"
