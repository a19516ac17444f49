# SPDX-License-Identifier: Apache-2.0
"""The calls of clients: decoded, checked, queued for the device, answered.

Whatever a message holds, its answer is a reply or a Failure; an exception that is not VDLA's would
be a defect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from vdla.runtime.devices import Device
from vdla.runtime.remote.board_worker import BoardWorker, Job, failure
from vdla.runtime.remote.calls import CallContext
from vdla.runtime.remote.content_cache import ContentCache
from vdla.runtime.remote.errors import DEVICE, REFUSED, SESSION, RemoteError
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import (
    VERSION,
    Accepted,
    Await,
    Batch,
    BoardStatus,
    Cancel,
    ClientStatus,
    Close,
    Goodbye,
    Hello,
    Lacking,
    Offer,
    Pending,
    Reserve,
    Run,
    StatusRequest,
    Upload,
    Welcome,
    receive,
    send,
)
from vdla.runtime.remote.operations import BatchExecution, PreparedBatch, prepare
from vdla.runtime.remote.results import PendingResult
from vdla.runtime.remote.sessions import ContentUpload, Session, SessionMemory, Sessions
from vdla.support.errors import Error

POLL_S = 10.0
"""Seconds after which a call is answered with Pending."""
CANCELLED = "batch: the client cancelled it before it ran"
_HASH_DIGITS = 64


class RemoteService:
    """The calls on one device."""

    def __init__(self, open_device: Callable[[], Device], limits: Limits) -> None:
        self._limits, self._start = limits, time.monotonic()
        self.contents = ContentCache(limits.cache_bytes)
        self.sessions = Sessions(limits, self._end)
        self.worker = BoardWorker(open_device, limits, self.sessions.lose_all)
        clock_hz = self.worker.config.clock_mhz * 1e6
        self._most_cycles = max(1, min(1 << 50, int(limits.run_s * clock_hz)))

    @property
    def calls(self) -> dict[str, Callable[[bytes], bytes]]:
        """The calls of one message and one reply, by name."""
        kinds: dict[str, Callable[[bytes], bytes]] = {
            "Submit": self._submit,
            "Offer": self._offer,
            "Upload": self._upload,
            "Cancel": self._cancel,
            "Close": self._close,
            "Reserve": self._reserve,
            "Status": self._status,
        }
        return {name: partial(_guarded, name.lower(), call) for name, call in kinds.items()}

    # --- sessions

    def session(self, frame: bytes, context: CallContext) -> Iterator[bytes]:
        """The call whose life is that of the client's connection."""
        try:
            hello, _ = receive(Hello, frame, "hello")
            token, session = self._greet(hello)
            connection = self.sessions.attach(session)
        except Error as error:
            yield failure(getattr(error, "code", REFUSED), str(error))
            return
        ended = session.changed
        if not context.add_callback(lambda: self.sessions.detach(session, connection)):
            self.sessions.detach(session, connection)  # the client has gone already
            return
        yield send(self._welcome(token, session))
        while not ended.wait(POLL_S) and context.is_active():
            pass
        if session.lost or session.closed:
            yield send(Goodbye(session.lost or "the session was closed"))

    def _greet(self, hello: Hello) -> tuple[str, Session]:
        """The session that a Hello opens or resumes."""
        if hello.version != VERSION:
            raise RemoteError(
                f"hello: version must be {VERSION}, got {hello.version}; install the same vdla on both sides"
            )
        if hello.token is not None:
            return hello.token, self.sessions.get(hello.token)
        config = self.worker.config
        if hello.fingerprint not in ("", config.fingerprint):
            raise RemoteError(
                f"hello: fingerprint must be {config.fingerprint} ({config.name}), got {hello.fingerprint[:12]}"
            )
        self.worker.require_usable()
        return self.sessions.open(hello.client, self.worker.epoch, hello.memory_bytes)

    def _welcome(self, token: str, session: Session) -> Welcome:
        return Welcome(
            token=token,
            device=self.worker.name,
            config=self.worker.config.to_dict(),
            memory_bytes=session.memory_bytes,
            chunk_bytes=self._limits.message_bytes,
            grace_s=float(self._limits.grace_s),
        )

    def _end(self, session: Session) -> None:
        """Withdraw what an ended session has in the queue, and release what it holds."""
        with session.lock:
            self._drop_upload(session)
        self.worker.cancel(session, lambda job: True, _ended(session))
        self.worker.submit(Job(session, partial(_release, session), None), always=True)

    def _close(self, frame: bytes) -> bytes:
        close, _ = receive(Close, frame, "close")
        self.sessions.end(self.sessions.get(close.session))
        return send(Accepted())

    # --- batches

    def _submit(self, frame: bytes) -> bytes:
        message, data = receive(Batch | Await, frame, "submit")  # type: ignore[arg-type]  # a union
        session = self.sessions.get(message.session)
        with session.call(self._limits.in_flight):
            if isinstance(message, Await):
                return self._wait(session.results.get(message.request))
            result, is_new = session.results.begin(message.request, message.acknowledged)
            if is_new:
                self._queue(session, message, data, result)
            return self._wait(result)

    def _queue(self, session: Session, batch: Batch, data: memoryview, result: PendingResult) -> None:
        try:
            self.worker.require_usable()
            prepared = prepare(batch.operations, data, self.contents, self.worker.config, self._limits)
            self.worker.submit(Job(session, partial(self._execute, session, prepared), result))
        except BaseException:
            session.results.forget(batch.request)
            raise
        if session.closed:  # it ended while the batch came in
            self.worker.cancel(session, lambda job: job.result is result, _ended(session))

    def _execute(self, session: Session, batch: PreparedBatch, device: Device, memory: SessionMemory) -> bytes:
        self.worker.runs += any(isinstance(operation, Run) for operation, _ in batch.steps)
        execution = BatchExecution(device, session, memory, most_cycles=self._most_cycles)
        reply = execution.run(batch)
        if execution.failed:
            self.worker.last_error = execution.failed
        return reply

    def _wait(self, result: PendingResult) -> bytes:
        if result.ended.wait(POLL_S) and result.reply is not None:
            return result.reply
        return send(Pending(len(self.worker.queue)))

    def _cancel(self, frame: bytes) -> bytes:
        cancel, _ = receive(Cancel, frame, "cancel")
        session = self.sessions.get(cancel.session)
        result = session.results.get(cancel.request)
        self.worker.cancel(session, lambda job: job.result is result, failure(DEVICE, CANCELLED))
        return send(Accepted())

    # --- contents

    def _offer(self, frame: bytes) -> bytes:
        offer, _ = receive(Offer, frame, "offer")
        session = self.sessions.get(offer.session)
        with session.call(self._limits.in_flight):
            if len(offer.hashes) > self._limits.operations:
                raise RemoteError(f"offer: hashes must be at most {self._limits.operations}, got {len(offer.hashes)}")
            for name in offer.hashes:
                _require_hash(name)
            return send(Lacking(self.contents.lacking(offer.hashes)))

    def _upload(self, frame: bytes) -> bytes:
        message, data = receive(Upload, frame, "upload")
        _require_hash(message.sha256)
        session = self.sessions.get(message.session)
        with session.call(self._limits.in_flight), session.lock:
            upload = self._upload_of(session, message)
            expected = len(upload.content)
            if message.offset + len(data) == expected:
                return send(Accepted())  # sent again after a lost reply
            if message.offset != expected or expected + len(data) > upload.total:
                raise RemoteError(f"upload: offset must be {expected} of {upload.total}, got {message.offset}")
            upload.content += data
            if len(upload.content) < upload.total:
                return send(Accepted())
            self._drop_upload(session)
            self.contents.put(upload.sha256, bytes(upload.content))
        return send(Accepted())

    def _upload_of(self, session: Session, message: Upload) -> ContentUpload:
        """The session's upload in progress; a message for another content begins that one."""
        session.require_open()
        upload = session.upload
        if upload is not None and (upload.sha256, upload.total) == (message.sha256, message.total):
            return upload
        if not 1 <= message.total <= self._limits.content_bytes:
            most = self._limits.content_bytes
            raise RemoteError(f"upload: total must be from 1 to {most} bytes, got {message.total}")
        self._drop_upload(session)
        self.contents.reserve(message.total)
        session.upload = ContentUpload(message.sha256, message.total)
        return session.upload

    def _drop_upload(self, session: Session) -> None:
        if session.upload is not None:
            self.contents.release(session.upload.total)
            session.upload = None

    # --- the rest

    def _reserve(self, frame: bytes) -> bytes:
        message, _ = receive(Reserve, frame, "reserve")
        self.sessions.reserve(self.sessions.get(message.session), message.seconds)
        return send(Accepted())

    def _status(self, frame: bytes) -> bytes:
        receive(StatusRequest, frame, "status")
        return send(self.status())

    def status(self) -> BoardStatus:
        """What `vdla board status` shows."""
        worker, contents, limits = self.worker, self.contents, self._limits
        return BoardStatus(
            device=worker.name,
            config=worker.config.name,
            fingerprint=worker.config.fingerprint,
            clock_mhz=float(worker.config.clock_mhz),
            sessions=len(self.sessions),
            most_sessions=limits.sessions,
            queued=len(worker.queue),
            running=int(worker.running),
            blocks=worker.memory.blocks,
            memory_bytes=worker.memory.used_bytes,
            most_memory_bytes=limits.total_memory_bytes,
            session_memory_bytes=limits.memory_bytes,
            cache_bytes=contents.nbytes,
            cache_hits=contents.hits,
            cache_misses=contents.misses,
            runs=worker.runs,
            reopened=worker.reopened,
            uptime_s=time.monotonic() - self._start,
            last_error=worker.last_error,
            clients=tuple(map(self._client, self.sessions.opened())),
            power_w=worker.power_w(),
        )

    def _client(self, session: Session) -> ClientStatus:
        return ClientStatus(
            number=session.number,
            client=session.client,
            connected=int(session.detached_s is None),
            memory_bytes=session.used_bytes,
            blocks=len(session.blocks),
            queued=self.worker.queue.count_of(session),
            running=int(self.worker.runs_for(session)),
            reserved_s=round(session.reserved_s, 1),
        )

    def tick(self) -> None:
        """What is to be done a few times a second."""
        self.worker.watch()
        self.sessions.expire()

    def close(self) -> None:
        """End all sessions and close the device."""
        self.sessions.end_all()
        self.worker.close()


def _release(session: Session, device: Device, memory: SessionMemory) -> bytes:
    memory.release_all(device, session)
    return b""


def _ended(session: Session) -> bytes:
    """The answer to batches of a session that has ended."""
    return failure(SESSION, f"session: session must be open, got one that has ended{_why(session)}")


def _why(session: Session) -> str:
    return f": {session.lost}" if session.lost else ""


def _guarded(where: str, call: Callable[[bytes], bytes], frame: bytes) -> bytes:
    """The reply, or a Failure for an error of VDLA."""
    try:
        return call(frame)
    except Error as error:
        return failure(getattr(error, "code", REFUSED), str(error))
    except (RecursionError, MemoryError, OverflowError) as error:
        return failure(REFUSED, f"{where}: message must be within the server's means, got {type(error).__name__}")


def _require_hash(text: str) -> None:
    if len(text) != _HASH_DIGITS or not set(text) <= set("0123456789abcdef"):
        raise RemoteError(f"content: SHA-256 must be {_HASH_DIGITS} hexadecimal digits, got {text[:70]!r}")
