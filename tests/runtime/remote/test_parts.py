# SPDX-License-Identifier: Apache-2.0
"""Framing, messages, limits, addresses, the queue, the cache, kept results: exact texts."""

import hashlib
import struct
import zlib

import pytest

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.board_worker import FairQueue
from vdla.runtime.remote.content_cache import ContentCache
from vdla.runtime.remote.errors import DAMAGED, UNKNOWN_CONTENT, RemoteError
from vdla.runtime.remote.framing import pack, unpack
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import Allocate, Await, Batch, Close, Read, Run, receive, send
from vdla.runtime.remote.results import KeptResults


def refused(call, *arguments):
    with pytest.raises(RemoteError) as error:
        call(*arguments)
    return str(error.value)


# --- frames and messages


def test_a_frame_is_a_length_a_checksum_a_header_and_bytes():
    header = b'{"a":1}'
    checksum = zlib.crc32(struct.pack("<I", 7) + header + b"xyz")
    assert pack({"a": 1}, [b"xyz"]) == struct.pack("<II", 7, checksum) + header + b"xyz"
    assert unpack(pack({"a": 1}, [b"xyz"])) == ({"a": 1}, b"xyz")


def framed(length, content):
    start = struct.pack("<I", length)
    return start + struct.pack("<I", zlib.crc32(content, zlib.crc32(start))) + content


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"1234567", "frame: length must be at least 8 bytes, got 7"),
        (framed(9, b"{}"), "frame: header must be at most 2 bytes, got 9"),
        (framed(2, b"{]"), "frame: header must be JSON, got JSONDecodeError"),
        (framed(2, b"\xff\xff"), "frame: header must be JSON, got UnicodeDecodeError"),
        (framed(100_000, b"[" * 100_000), "frame: header must be JSON, got RecursionError"),
        (framed(5000, b"1" * 5000), "frame: header must be JSON, got ValueError"),
    ],
)
def test_a_malformed_frame_is_refused(frame, text):
    assert refused(unpack, frame) == text


def test_a_flipped_bit_is_found_wherever_it_is():
    frame = pack({"kind": "x"}, [b"data"])
    for bit in range(8 * len(frame)):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RemoteError, match="frame: checksum must be") as error:
            unpack(bytes(flipped))
        assert error.value.code == DAMAGED


def test_messages_come_back_as_they_were_sent():
    batch = Batch("token", 3, 2, (Allocate(5), Run("00", {"x": 4096}, None), Read(4096, 5)))
    assert receive(Batch | Await, send(batch, [b"12"]), "here") == (batch, b"12")


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ([], "here: value must be an object, got []"),
        ({"kind": "Open", "session": "x"}, "here: kind must be Close, got 'Open'"),
        ({"kind": "Close", "session": 1}, "here.session: value must be str, got 1"),
        ({"kind": "Close"}, "here: fields must be session, got "),
        ({"kind": "Close", "session": "x", "more": 1}, None),
    ],
)
def test_a_message_has_its_fields_with_their_types(header, text):
    found = refused(receive, Close, pack(header), "here")
    assert found == text or (text is None and found.startswith("here: fields must be session, got "))


@pytest.mark.parametrize("kind", [{}, [], None, "Batchh", 1])
def test_a_kind_of_any_type_is_refused(kind):
    assert refused(receive, Batch | Await, pack({"kind": kind}), "submit").startswith(
        "submit: kind must be one of Batch, Await, got "
    )


def test_a_boolean_is_no_number():
    header = {"kind": "Await", "session": "x", "request": True}
    assert refused(receive, Batch | Await, pack(header), "submit") == "submit.request: value must be int, got True"


# --- limits and addresses


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"sessions": 0}, "limits: sessions must be a number above 0, got 0"),
        ({"sessions": 1.5}, "limits: sessions must be an integer from 1, got 1.5"),
        ({"queue": True}, "limits: queue must be an integer from 1, got True"),
        ({"run_s": float("nan")}, "limits: run_s must be a number above 0, got nan"),
        ({"run_s": "1"}, "limits: run_s must be a number above 0, got '1'"),
    ],
)
def test_limits_are_positive_numbers(values, text):
    assert refused(lambda: Limits(**values)) == text


@pytest.mark.parametrize(
    ("text", "target", "loopback"),
    [
        ("pynq://127.0.0.1:80", "127.0.0.1:80", True),
        ("localhost", "localhost:7968", True),
        ("pynq://[::1]:5", "[::1]:5", True),
        ("board.lab:1", "board.lab:1", False),
        ("0.0.0.0:1", "0.0.0.0:1", False),
        ("127.example.org:1", "127.example.org:1", False),
    ],
)
def test_addresses(text, target, loopback):
    assert (Address.parse(text).target, Address.parse(text).is_loopback) == (target, loopback)


@pytest.mark.parametrize("text", ["pynq://", "pynq://a:b", "a:70000", "a/b:1", "user@a:1", "a:", "a b:1", "http://a:1"])
def test_an_address_is_a_host_and_a_port(text):
    assert refused(Address.parse, text) == f"address: address must look like pynq://HOST:PORT, got {text}"


# --- the queue


def test_the_queue_takes_from_sessions_in_turn():
    queue = FairQueue(10, 5)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.put(item[0], item)
    assert [queue.take(0) for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_the_queue_is_bounded_by_session_and_in_total():
    queue = FairQueue(3, 2)
    queue.put("a", 1)
    queue.put("a", 2)
    assert refused(queue.put, "a", 3) == "queue: a session must have at most 2 batches waiting, got more"
    queue.put("b", 4)
    assert refused(queue.put, "c", 5) == "queue: waiting batches must be at most 3, got more; try again later"
    queue.put("c", 6, True)
    assert queue.remove("a", lambda item: item == 1) == [1]
    assert [queue.take(0) for _ in range(4)] == [2, 4, 6, None]


# --- the cache


def named(content):
    return hashlib.sha256(content).hexdigest()


def test_the_cache_drops_what_was_used_least_recently():
    cache = ContentCache(8)
    for content in (b"aaaa", b"bbbb"):
        cache.put(named(content), content)
    assert cache.get(named(b"aaaa")) == b"aaaa"
    cache.put(named(b"cccc"), b"cccc")
    assert cache.lacking([named(b"aaaa"), named(b"bbbb"), named(b"cccc")]) == (named(b"bbbb"),)
    assert (cache.hits, cache.misses, cache.nbytes) == (2, 1, 8)
    with pytest.raises(RemoteError) as error:
        cache.get(named(b"bbbb"))
    assert error.value.code == UNKNOWN_CONTENT
    assert str(error.value) == f"content: {named(b'bbbb')[:12]} must be uploaded first, got a hash alone"


def test_a_content_is_stored_under_its_true_hash_only():
    cache = ContentCache(8)
    assert refused(cache.put, "0" * 64, b"abc") == (
        f"upload: SHA-256 must be {named(b'abc')[:12]} for these bytes, got 000000000000"
    )
    cache.reserve(6)
    assert refused(cache.reserve, 3) == (
        "upload: contents on their way must take at most 8 bytes, got 9; try again later"
    )


# --- results


def test_a_batch_is_new_once_and_its_result_is_kept_until_it_is_acknowledged():
    results = KeptResults(100)
    first, is_new = results.begin(1, 0)
    assert is_new and results.begin(1, 0) == (first, False)
    first.finish(b"one")
    first.finish(b"two")
    assert results.get(1).reply == b"one"
    results.begin(2, 1)
    assert refused(results.get, 1) == "batch: number must be of a batch with a result to fetch, got 1"
    assert refused(results.begin, 1, 0) == "batch: number must be above 1, got 1 again"
    assert refused(results.begin, 3, 2) == ("batch: acknowledged must be of ended batches, got 2, which has not ended")
    assert refused(results.begin, 3, 3) == "batch: acknowledged must be from 0 to 2, got 3"


def test_results_that_nobody_acknowledges_are_bounded():
    results = KeptResults(10)
    results.begin(1, 0)[0].finish(b"x" * 11)
    assert refused(results.begin, 2, 0) == "batch: results to acknowledge must take at most 10 bytes, got 11"
    many = KeptResults(10)
    for number in range(1, 65):
        many.begin(number, 0)
    assert refused(many.begin, 65, 0) == "batch: results to acknowledge must be at most 64, got 64"
