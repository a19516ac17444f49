# SPDX-License-Identifier: Apache-2.0
"""Malformed requests to a server: it must live, stay correct, and touch only a client's own memory.

A canary session holds random bytes; the fuzzed messages of other sessions name its blocks and
tokens of strangers. They travel over gRPC as they are, some as bytes over a bare connection.
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
import numpy as np

from vdla.benchmarks.board.served import Served, served
from vdla.benchmarks.harness import Row
from vdla.hardware.config import Config
from vdla.hardware.program import Program, placed_sizes
from vdla.runtime.devices.run import run
from vdla.runtime.remote.framing import PREFIX, unpack
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import SERVICE, VERSION
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.support.errors import Error
from vdla.support.progress import Progress, silent
from vdla.verification.hostile.mutate import mutate_json, mutated_bytes
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program
from vdla.verification.programs.random_data import random_arrays

SHORT, LONG = 600, 10_000
"""Messages of the short and the long form."""
MOST_GROWTH_BYTES = 1 << 29
"""The memory by which the server may grow: its limits allow about this."""
LIMITS = Limits(sessions=8, run_s=2.0, grace_s=1.0, cache_bytes=1 << 24, memory_bytes=1 << 22, content_bytes=1 << 20)
_CHECK_EVERY = 500
_CALL_S = 30.0
_CANARY_BYTES = 3 * 4096
_PIECE_BYTES = 32  # of the canary, by which a reply that leaks it is known
_CALLS = ("Submit", "Submit", "Submit", "Submit", "Offer", "Upload", "Upload", "Cancel", "Close", "Status", "Session")
_WORDS = (
    "<stream>", "inp", "wgt", "Batch", "Await", "Run", "Read", "WriteBytes", "WriteKnown", "Allocate", "Release",
    "Clear",
)  # fmt: skip


@dataclass(slots=True)
class Attacker:
    """A session of the fuzzer: its token, its block, the number of its next batch."""

    token: str
    stream: Any
    request: int = 0
    block: int = 0
    places: dict[str, int] = field(default_factory=dict)


class Fuzzer:
    """Makes and sends messages; `answers` counts what came back."""

    def __init__(self, address: str, seed: int, canary: tuple[int, bytes]) -> None:
        self._random = Random(f"hostile messages {seed}")
        self._channel = grpc.insecure_channel(
            address.removeprefix("pynq://"), (("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1))
        )
        self._target = address.removeprefix("pynq://").rpartition(":")
        self._calls = {name: self._channel.unary_unary(f"/{SERVICE}/{name}") for name in _CALLS if name != "Session"}
        self._session = self._channel.unary_stream(f"/{SERVICE}/Session")
        self._canary_address, self._canary = canary
        config = Config.preset("tiny")
        self._program = gemm_program(GemmTiling(config, 6, 8, 8, 2, 1))
        self._content = self._program.to_bytes()
        self._sha256 = hashlib.sha256(self._content).hexdigest()
        self.answers: Counter[str] = Counter()
        self.leaks = 0
        self._attacker: Attacker | None = None

    # --- a session of the fuzzer's own

    def _open(self) -> Attacker:
        for _ in range(50):
            stream = self._session(frame(_hello(None, None)), timeout=_CALL_S)
            header, _data = unpack(next(stream))
            if header["kind"] == "Welcome":
                break
            self._random.random()
            time.sleep(0.2)
        attacker = Attacker(header["token"], stream)
        self._upload(attacker, self._content)
        sizes = placed_sizes(self._program)
        reply = self._batch(attacker, [{"kind": "Allocate", "nbytes": size} for size in (4096, *sizes.values())])
        attacker.block, *places = reply["values"]
        attacker.places = dict(zip(sizes, places, strict=True))
        return attacker

    def _batch(self, attacker: Attacker, operations: list[Any]) -> Mapping[str, Any]:
        attacker.request += 1
        header = self._header(attacker, operations)
        result: Mapping[str, Any] = unpack(self._calls["Submit"](frame(header), timeout=_CALL_S))[0]
        return result

    @staticmethod
    def _header(attacker: Attacker, operations: list[Any]) -> Row:
        number = attacker.request
        return {
            "kind": "Batch", "session": attacker.token, "request": number, "acknowledged": max(0, number - 1),
            "operations": operations,
        }  # fmt: skip

    def _upload(self, attacker: Attacker, content: bytes) -> str:
        header = _upload(attacker.token, content, len(content))
        self._calls["Upload"](frame(header, content), timeout=_CALL_S)
        return str(header["sha256"])

    # --- messages

    def attack(self) -> None:
        """Send one malformed message, or several that belong together."""
        if self._attacker is None or self._random.random() < 0.01:
            self._renew()
        attacker = self._attacker
        assert attacker is not None
        kind = self._random.random()
        try:
            if kind < 0.02:
                self._bare()
            elif kind < 0.15:
                self._hostile_program(attacker)
            else:
                self._hostile_message(attacker)
        except grpc.RpcError as error:
            self.answers[error.code().name.lower()] += 1
        except (StopIteration, KeyError, ValueError):
            self.answers["session refused"] += 1
            self._attacker = None

    def _renew(self) -> None:
        if self._attacker is not None and self._random.random() < 0.5:
            self._attacker.stream.cancel()
        elif self._attacker is not None:
            with suppress(grpc.RpcError):
                self._calls["Close"](frame({"kind": "Close", "session": self._attacker.token}), timeout=_CALL_S)
        self._attacker = None
        self._attacker = self._open()

    def _hostile_program(self, attacker: Attacker) -> None:
        """A program with mutated bytes under a true checksum, and a run of it."""
        content = self._sealed(self._content)
        sha256 = self._upload(attacker, content)
        reply = self._batch(attacker, [self._run(attacker, sha256)])
        self._count(reply)

    def _sealed(self, content: bytes) -> bytes:
        made = bytearray(mutated_bytes(content, content, self._random))
        if len(made) >= 56:  # header of 24 bytes, SHA-256, then what it covers
            made[24:56] = hashlib.sha256(bytes(made[:24]) + bytes(made[56:])).digest()
        return bytes(made) or b"x"

    def _run(self, attacker: Attacker, sha256: str) -> Row:
        addresses = dict(attacker.places)
        if self._random.random() < 0.5:
            name = self._random.choice(list(addresses))
            addresses[name] = self._random.choice(
                (self._canary_address, addresses[name] + 64, 0, -4096, 1 << 40, *addresses.values())
            )
        timeout = self._random.choice((None, 1, 100, 10**9, 10**30))
        return {"kind": "Run", "sha256": sha256, "addresses": addresses, "timeout_cycles": timeout}

    def _hostile_message(self, attacker: Attacker) -> None:
        name = self._random.choice(_CALLS)
        header, data = self._valid(name, attacker)
        if self._random.random() < 0.6:
            mutate_json(header, self._random, _WORDS)
        message = frame(header, data)
        broken = self._random.random()
        if broken < 0.15:
            message = mutated_bytes(message, self._content, self._random)
        elif broken < 0.25:
            message = reframed(mutated_bytes(message, self._content, self._random), self._random)
        if name == "Session":
            stream = self._session(message, timeout=_CALL_S)
            with suppress(StopIteration):
                self._answered(next(stream))
            stream.cancel()
            return
        self._answered(self._calls[name](message, timeout=_CALL_S))

    def _answered(self, reply: bytes) -> None:
        header, data = unpack(reply)
        self._count(header)
        answer = bytes(data)
        if answer and any(
            self._canary[at : at + _PIECE_BYTES] in answer for at in range(0, _CANARY_BYTES, _PIECE_BYTES)
        ):
            self.leaks += 1

    def _count(self, header: Mapping[str, Any]) -> None:
        failed = header["kind"] == "Failure" or header.get("failure")
        self.answers["refused" if failed else header["kind"].lower()] += 1

    def _valid(self, name: str, attacker: Attacker) -> tuple[Row, bytes]:
        """A message as a client sends it, except for the blocks that it names."""
        token = self._random.choice((attacker.token,) * 9 + ("x" * 43,))
        match name:
            case "Submit":
                attacker.request += 1
                operations, data = self._operations(attacker)
                return {**self._header(attacker, operations), "session": token}, data
            case "Offer":
                return {"kind": "Offer", "session": token, "hashes": [self._sha256, "0" * 64]}, b""
            case "Upload":
                content = self._random.randbytes(self._random.choice((1, 100, 5000)))
                return _upload(token, content, len(content) * self._random.choice((1, 1, 2, 1000))), content
            case "Cancel":
                return {"kind": "Cancel", "session": token, "request": attacker.request}, b""
            case "Close":
                return {"kind": "Close", "session": "y" * 43}, b""
            case "Status":
                return {"kind": "StatusRequest"}, b""
        return _hello(4096, self._random.choice((None, token, "z" * 43))), b""

    def _operations(self, attacker: Attacker) -> tuple[list[Any], bytes]:
        data = b""
        operations: list[Any] = []
        for _ in range(self._random.randint(1, 4)):
            block, canary = attacker.block, self._canary_address
            address = self._random.choice((block, block, canary, canary + 64, block + 4000, 0))
            nbytes = self._random.choice((1, 64, 4096, 4097, _CANARY_BYTES, 1 << 30))
            match self._random.randrange(7):
                case 0:
                    operations.append({"kind": "Allocate", "nbytes": nbytes})
                case 1:
                    operations.append({"kind": "Release", "address": self._random.choice((address, 0))})
                case 2:
                    operations.append({"kind": "Clear", "address": address, "nbytes": nbytes})
                case 3:
                    written = min(nbytes, 5000)
                    operations.append({"kind": "WriteBytes", "address": address, "nbytes": written})
                    data += b"\xa5" * written
                case 4:
                    operations.append({"kind": "WriteKnown", "address": address, "sha256": self._sha256})
                case 5:
                    operations.append({"kind": "Read", "address": address, "nbytes": nbytes})
                case _:
                    operations.append(self._run(attacker, self._sha256))
        return operations, data

    def _bare(self) -> None:
        """Bytes that are not HTTP/2, on a connection that ends early."""
        host, _, port = self._target
        start = self._random.choice((b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"))
        with suppress(OSError), socket.create_connection((host, int(port)), _CALL_S) as bare:
            bare.sendall(start + self._random.randbytes(self._random.choice((1, 9, 100, 3000))))
        self.answers["bare bytes"] += 1

    def close(self) -> None:
        """End the fuzzer's connection."""
        self._channel.close()


def _hello(memory_bytes: int | None, token: str | None) -> Row:
    return {
        "kind": "Hello", "version": VERSION, "client": "x", "fingerprint": "", "memory_bytes": memory_bytes,
        "token": token,
    }  # fmt: skip


def _upload(token: str, content: bytes, total: int) -> Row:
    sha256 = hashlib.sha256(content).hexdigest()
    return {"kind": "Upload", "session": token, "sha256": sha256, "total": total, "offset": 0}


def frame(header: object, data: bytes = b"") -> bytes:
    """The frame of any JSON, with a true checksum."""
    text = json.dumps(header).encode()
    return _frame(len(text), text + data)


def _frame(length: int, content: bytes) -> bytes:
    start = struct.pack("<I", length)
    return start + struct.pack("<I", zlib.crc32(content, zlib.crc32(start))) + content


def reframed(message: bytes, random: Random) -> bytes:
    """A mutated frame with a true checksum and sometimes a false length."""
    content = message[PREFIX.size :]
    length = (
        int.from_bytes(message[:4], "little") if random.random() < 0.7 else random.choice((0, 1, 1 << 31, 0xFFFFFFFF))
    )
    return _frame(length, content)


def hostile_messages(count: int = LONG, seed: int = 0, progress: Progress = silent) -> Row:
    """Figures of `count` malformed messages; all but `fuzzed`, growth and answers must be 0."""
    config = Config.preset("tiny")
    canary = np.random.default_rng(seed).integers(0, 256, _CANARY_BYTES, np.uint8)
    run(_probe(), random_arrays(_probe(), 1), "sim")  # compiles the simulator, or the server's first run takes too long
    with served("sim", config, LIMITS) as server, RemoteDevice(config, server.address) as device:
        address = device.allocate(_CANARY_BYTES)
        device.write(address, canary)
        wrong = _wrong(device, address, canary)
        before = peak = server.resident_bytes
        fuzzer = Fuzzer(server.address, seed, (address, canary.tobytes()))
        sent = 0
        while sent < count and server.alive:
            for _ in range(min(_CHECK_EVERY, count - sent)):
                fuzzer.attack()
                sent += 1
            peak = max(peak, server.resident_bytes) if server.alive else peak
            wrong += _wrong(device, address, canary)
            progress("hostile messages", sent, count)
        fuzzer.close()
        return {
            "fuzzed": sent,
            "crashes": _crashes(server, fuzzer),
            "canary_changed": wrong,
            "canary_read": fuzzer.leaks,
            "memory_unbounded": int(peak - before > MOST_GROWTH_BYTES),
            "grown_mib": (peak - before) >> 20,
            "answers": dict(fuzzer.answers.most_common()),
            "seed": seed,
        }


def _crashes(server: Served, fuzzer: Fuzzer) -> int:
    """Deaths of the server, and calls that ended in an exception of its code."""
    return int(not server.alive) + fuzzer.answers["unknown"] + fuzzer.answers["deadline_exceeded"]


def _wrong(device: RemoteDevice, address: int, canary: np.ndarray[Any, Any]) -> int:
    """1 where the canary changed, or a program of its session has a wrong result."""
    program = _probe()
    arrays = random_arrays(program, 1)
    try:
        same = bool((device.read(address, len(canary)) == canary).all())
        outputs = run(program, arrays, device).outputs
    except Error:
        return 1
    expected = run(program, arrays, "sim").outputs
    return int(not same or any((outputs[name] != array).any() for name, array in expected.items()))


def _probe() -> Program:
    return gemm_program(GemmTiling(Config.preset("tiny"), 6, 8, 8, 2, 1))
