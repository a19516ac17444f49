# SPDX-License-Identifier: Apache-2.0
"""Sessions, fairness, faults: a server in this process and devices connected to it.

Every test runs over gRPC and over HTTP/1.1: the rules do not depend on what carries the messages.
"""

import hashlib
import threading
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from helpers.remote_clients import ARRAYS, PROGRAM, TINY, WAIT_S, GatedDevice, eventually, right

from vdla.benchmarks.board.hostile_messages import frame
from vdla.hardware.config import Config
from vdla.hardware.program import STREAM, place
from vdla.runtime.devices import DeviceError, open_device
from vdla.runtime.devices.run import run, upload
from vdla.runtime.remote.calls import CallFailed
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.framing import unpack
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.open_calls import open_calls
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.runtime.remote.server import TRANSPORTS, RemoteServer
from vdla.simulator.verify import VerifyError
from vdla.verification.programs.random_data import random_arrays

QUICK = Limits(grace_s=0.3, run_s=0.5)


@pytest.fixture(autouse=True, params=TRANSPORTS)
def transport(request, monkeypatch):
    monkeypatch.setattr("vdla.runtime.remote.server.default_transport", lambda: request.param)
    return request.param


@pytest.fixture
def board():
    return GatedDevice()


@pytest.fixture
def server(board):
    with RemoteServer(lambda: board, TINY, "127.0.0.1:0", limits=replace(QUICK, run_s=20.0)) as opened:
        yield opened
        board.gate.set()


def connect(server, **options):
    return RemoteDevice(TINY, str(server.address), **options)


def raw(server, name, header, data=b""):
    """The reply to a message as a hostile client may send it."""
    calls = open_calls(server.address, Credentials(), WAIT_S)
    with closing(calls):
        return unpack(calls.function(name)(frame(header, data), WAIT_S))[0]


def batch(token, number, *operations):
    return {"kind": "Batch", "session": token, "request": number, "acknowledged": 0, "operations": list(operations)}


def token_of(device):
    return device._connection.welcome.token


# --- results


def test_a_program_runs_through_open_device_and_run(server):
    with open_device(str(server.address), TINY) as device:
        assert right(device)
    assert right(str(server.address))
    assert server.status().runs == 2


def test_proxy_variables_do_not_break_the_loopback(server, monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with connect(server) as device:
        assert right(device)


def test_programs_and_constants_are_uploaded_once(server):
    content = np.random.default_rng(0).integers(0, 256, 3_000_000, np.uint8)
    for _ in range(2):
        with connect(server) as device:
            address = device.allocate(len(content))
            device.write(address, content)
            assert (device.read(address, len(content)) == content).all()
            assert right(device)
    status = server.status()
    assert (status.cache_hits, status.cache_misses) == (2, 2)
    assert status.cache_bytes >= len(content)


def test_a_content_that_was_dropped_is_uploaded_again(board):
    limits = Limits(cache_bytes=100_000)
    with RemoteServer(lambda: board, TINY, "127.0.0.1:0", limits=limits) as server, connect(server) as device:
        addresses = [device.allocate(70_000) for _ in range(3)]
        contents = [np.full(70_000, value, np.uint8) for value in (1, 2, 3)]
        for _ in range(2):
            for address, content in zip(addresses, contents, strict=True):
                device.write(address, content)
            for address, content in zip(addresses, contents, strict=True):
                assert (device.read(address, 70_000) == content).all()
        assert server.status().cache_bytes <= 100_000


def test_large_data_that_changes_streams_in_both_directions(server):
    rng = np.random.default_rng(0)
    with connect(server) as device:
        address = device.allocate(3_500_000)
        for _ in range(3):
            content = rng.integers(0, 256, 3_500_000, np.uint8)
            device.write(address, content)
            assert (device.read(address, 3_500_000) == content).all()
    assert server.status().cache_misses == 1


def test_new_inputs_in_used_blocks_give_their_own_results(server):
    with connect(server) as device:
        assert all(right(device, arrays=random_arrays(PROGRAM, seed)) for seed in range(6))


# --- sessions


def test_a_closed_device_leaves_nothing(server):
    with connect(server) as device:
        device.allocate(100)
        assert (server.status().blocks, server.status().sessions) == (1, 1)
    eventually(lambda: server.status().blocks == 0, server.status)
    assert (server.status().sessions, server.status().memory_bytes) == (0, 0)


def test_a_client_that_vanishes_leaves_nothing_after_its_grace(server):
    device = connect(server)
    device.allocate(100)
    device._connection._closing = True  # as if the process were killed: no message, no resumption
    device._connection._stream.cancel()
    device._connection._channel.close()
    eventually(lambda: server.status().sessions == 0 and server.status().blocks == 0, server.status)


def test_a_session_is_resumed_after_its_connection_was_lost(server):
    with connect(server) as device:
        address = device.allocate(100)
        device.write(address, np.arange(100, dtype=np.uint8))
        device.read(address, 1)
        device._connection._stream.cancel()
        assert (device.read(address, 100) == np.arange(100)).all()
        threading.Event().wait(2 * QUICK.grace_s)
        assert (device.read(address, 100) == np.arange(100)).all()
        assert server.status().sessions == 1


def test_a_batch_that_is_sent_twice_is_executed_once(server):
    with connect(server) as device:
        message = batch(token_of(device), 1, {"kind": "Allocate", "nbytes": 5})
        first, second = raw(server, "Submit", message), raw(server, "Submit", message)
        assert first == second
        assert first["failure"] is None
        assert server.status().blocks == 1
        again = {"kind": "Await", "session": token_of(device), "request": 1}
        assert raw(server, "Submit", again) == first


def test_one_session_does_not_reach_the_blocks_of_another(server):
    with connect(server) as mine, connect(server) as other:
        secret = mine.allocate(64)
        mine.write(secret, np.full(64, 7, np.uint8))
        mine.read(secret, 1)
        own = other.allocate(PROGRAM.words.nbytes)
        token = token_of(other)
        for number, operation in enumerate(
            (
                {"kind": "Read", "address": secret, "nbytes": 64},
                {"kind": "WriteBytes", "address": secret, "nbytes": 0},
                {"kind": "Clear", "address": secret, "nbytes": 64},
                {"kind": "Read", "address": own, "nbytes": 8192},
                {"kind": "Read", "address": own, "nbytes": -1},
            ),
            5,
        ):
            reply = raw(server, "Submit", batch(token, number, operation))
            nbytes = operation["nbytes"]
            assert reply["failure"]["message"] == (
                f"device sim: access must lie in one allocated block, got {nbytes} bytes at {operation['address']}"
            )
        reply = raw(server, "Submit", batch(token, 20, {"kind": "Release", "address": secret}))
        assert reply["failure"]["message"] == (
            f"device sim: address to free must be one that allocate returned, got {secret}"
        )
        assert (mine.read(secret, 64) == 7).all()


def test_a_token_must_be_that_of_a_session(server):
    reply = raw(server, "Submit", batch("x" * 43, 1))
    assert reply == {
        "kind": "Failure",
        "code": "session",
        "message": "session: token must be that of an open session, got another; open the device again",
    }


def test_tokens_are_long_and_differ(server):
    with connect(server) as one, connect(server) as other:
        assert len({token_of(one), token_of(other)}) == 2
        assert len(token_of(one)) == 43


# --- what never reaches the device


def resident(device, stack):
    return upload(PROGRAM, ARRAYS, device, stack)


def upload_raw(server, token, content):
    sha256 = hashlib.sha256(content).hexdigest()
    header = {"kind": "Upload", "session": token, "sha256": sha256, "total": len(content), "offset": 0}
    assert raw(server, "Upload", header, content) == {"kind": "Accepted"}
    return sha256


def test_an_unsafe_program_is_refused_before_the_queue(server, board):
    unsafe = replace(PROGRAM, words=PROGRAM.words[::-1].copy(), tensor_of=PROGRAM.tensor_of[::-1].copy())
    with connect(server) as device:
        with pytest.raises(VerifyError):
            run(unsafe, ARRAYS, device)
        sha256 = upload_raw(server, token_of(device), unsafe.to_bytes())
        addresses, _ = place(unsafe)
        operation = {"kind": "Run", "sha256": sha256, "addresses": addresses, "timeout_cycles": None}
        reply = raw(server, "Submit", batch(token_of(device), 90, operation))
    assert reply["kind"] == "Failure"
    assert f"program {PROGRAM.name}" in reply["message"] or "unsafe" in reply["message"]
    assert board.order == []
    assert server.status().runs == 0


def test_places_of_a_run_must_not_overlap(server, board):
    addresses, _ = place(PROGRAM)
    with connect(server) as device:
        sha256 = upload_raw(server, token_of(device), PROGRAM.to_bytes())
        operation = {
            "kind": "Run",
            "sha256": sha256,
            "addresses": {**addresses, "out": addresses[STREAM]},
            "timeout_cycles": None,
        }
        reply = raw(server, "Submit", batch(token_of(device), 90, operation))
    start = addresses[STREAM]
    out, stream = (start + nbytes - 1 for nbytes in (PROGRAM.tensor("out").nbytes, PROGRAM.words.nbytes))
    assert reply["message"] == (
        f"program {PROGRAM.name}: places of out and {STREAM} must not overlap, "
        f"got bytes {start} to {out} and {start} to {stream}"
    )
    assert board.order == []


def test_changed_micro_ops_are_those_of_the_program_again(server):
    from contextlib import ExitStack

    with connect(server) as device, ExitStack() as stack:
        addresses = resident(device, stack)
        uops = PROGRAM.tensor("uops")
        device.write(addresses["uops"], np.full(uops.nbytes, 255, np.uint8))
        device.run(PROGRAM, addresses)
        assert (device.read(addresses["uops"], uops.nbytes) == np.frombuffer(uops.data, np.uint8)).all()


def test_a_machine_of_another_configuration_is_refused(server):
    with pytest.raises(RemoteError) as error:
        open_device(str(server.address), replace(TINY, inp_kib=2))
    assert str(error.value) == f"device {server.address}: program was compiled for inp_kib=2, device has 1"
    assert open_device(str(server.address), replace(TINY, clock_mhz=10)).close() is None


# --- limits


def test_memory_is_limited_by_session_and_in_total(board):
    limits = Limits(memory_bytes=10_000, total_memory_bytes=12_000, sessions=2, blocks=2)
    with RemoteServer(lambda: board, TINY, "127.0.0.1:0", limits=limits) as server:
        with connect(server) as one, connect(server) as other:
            one.allocate(6000)
            with pytest.raises(DeviceError) as error:
                one.allocate(6000)
            assert str(error.value) == (
                "device sim: cannot allocate 6000 bytes of DRAM, the session holds 6000 of its 10000; "
                "free tensors or ask for a higher limit"
            )
            with pytest.raises(DeviceError) as error:
                other.allocate(7000)
            assert str(error.value) == (
                "device sim: cannot allocate 7000 bytes of DRAM, all sessions hold 6000 of 12000; try again later"
            )
            one.allocate(1)
            with pytest.raises(DeviceError, match="a session must have at most 2 blocks, got one more"):
                one.allocate(1)
            with pytest.raises(RemoteError) as error:
                connect(server)
            assert str(error.value) == "session: at most 2 clients must be connected, got one more"
        with pytest.raises(RemoteError) as error:
            connect(server, memory_bytes=10_001)
        assert str(error.value) == "session: memory_bytes must be from 1 to 10000, got 10001"


def test_a_content_and_a_message_are_limited(board, transport):
    limits = Limits(content_bytes=1000, message_bytes=5000)
    with RemoteServer(lambda: board, TINY, "127.0.0.1:0", limits=limits) as server, connect(server) as device:
        header = {"kind": "Upload", "session": token_of(device), "sha256": "0" * 64, "total": 1001, "offset": 0}
        assert raw(server, "Upload", header)["message"] == "upload: total must be from 1 to 1000 bytes, got 1001"
        reads = [{"kind": "Read", "address": 0, "nbytes": 5001}]
        assert raw(server, "Submit", batch(token_of(device), 9, *reads))["message"] == (
            "batch: bytes to read must be at most 5000, got 5001"
        )
        with pytest.raises(CallFailed) as error:
            raw(server, "Status", {"kind": "x" * 400_000})
        assert error.value.code == {"grpc": "resource_exhausted", "http": "HTTP status 413"}[transport]


# --- fairness, cancellation, the watchdog


def in_thread(work):
    found = []

    def call():
        try:
            found.append(work())
        except DeviceError as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread, found


def test_sessions_take_turns(server, board):
    with connect(server) as one, connect(server) as other:
        for device in (one, other):
            right(device)
        board.order.clear()
        board.gate.clear()
        board.began.clear()
        blocker, _ = in_thread(lambda: right(one))
        assert board.began.wait(WAIT_S)
        tokens = {"a": token_of(one), "b": token_of(other)}
        threads = []
        for number, who in enumerate(("a", "a", "a", "b"), 1000):
            message = batch(tokens[who], number, {"kind": "Allocate", "nbytes": number})
            threads.append(in_thread(lambda message=message: raw(server, "Submit", message))[0])
            eventually(lambda n=number: server.status().queued == n - 999, server.status)
        taken = [server.service.worker.queue.take(0) for _ in range(4)]
        owners = {
            session.digest: name for name, token in tokens.items() for session in [server.service.sessions.get(token)]
        }
        assert [owners[job.session.digest] for job in taken] == ["a", "b", "a", "a"]
        for job in taken:
            job.finish(frame({"kind": "Accepted"}))
        board.gate.set()
        for thread in (blocker, *threads):
            thread.join(WAIT_S)


def test_a_waiting_batch_can_be_cancelled(server, board):
    with connect(server) as one, connect(server) as other:
        board.gate.clear()
        board.began.clear()
        blocker, _ = in_thread(lambda: right(one))
        assert board.began.wait(WAIT_S)
        thread, found = in_thread(lambda: other.allocate(5))
        eventually(lambda: server.status().queued == 1, server.status)
        other._connection.cancel(1)
        thread.join(WAIT_S)
        assert str(found[0]) == "batch: the client cancelled it before it ran"
        board.gate.set()
        blocker.join(WAIT_S)
        assert right(other)


def test_an_error_of_the_device_comes_to_the_client_and_the_session_goes_on(server, board):
    with connect(server) as device:
        board.failure = DeviceError("device sim: out of order")
        with pytest.raises(DeviceError) as error:
            right(device)
        assert str(error.value) == "device sim: out of order"
        assert right(device)
        assert server.status().last_error == "device sim: out of order"


def test_a_device_that_crashes_is_opened_again_and_sessions_say_that_memory_is_lost():
    boards = []

    def opened():
        boards.append(GatedDevice())
        return boards[-1]

    with RemoteServer(opened, TINY, "127.0.0.1:0", limits=QUICK) as server:
        with connect(server) as device, connect(server) as other:
            other.allocate(5)
            boards[0].failure = OSError("the plug was pulled")
            with pytest.raises(DeviceError) as error:
                right(device)
            assert str(error.value) == (
                "device sim: device failed with OSError: the plug was pulled; it was opened again"
            )
            with pytest.raises(RemoteError, match="OSError: the plug was pulled; open the device again"):
                other.allocate(5)
        with connect(server) as again:
            assert right(again)
        assert (len(boards), server.status().reopened) == (2, 1)


def test_the_watchdog_gives_up_a_run_that_does_not_end():
    boards = []

    def opened():
        boards.append(GatedDevice())
        return boards[-1]

    with RemoteServer(opened, TINY, "127.0.0.1:0", limits=QUICK) as server, connect(server) as device:
        boards[0].gate.clear()
        with pytest.raises(DeviceError) as error:
            right(device)
        assert (
            str(error.value) == "device sim: a run did not end within 0.5 s, nor stopped; the device was opened again"
        )
        with connect(server) as again:
            assert right(again)
        boards[0].gate.set()
    assert len(boards) == 2


class StoppableDevice(GatedDevice):
    """A device that ends its run when it is asked to."""

    def stop(self):
        self.failure = DeviceError("device sim: the program was stopped")
        self.gate.set()


def test_a_device_that_can_stop_keeps_its_memory():
    board = StoppableDevice()
    with RemoteServer(lambda: board, TINY, "127.0.0.1:0", limits=QUICK) as server, connect(server) as device:
        board.gate.clear()
        with pytest.raises(DeviceError) as error:
            right(device)
        assert str(error.value) == "device sim: the program was stopped"
        assert right(device)
        assert server.status().reopened == 0


def test_the_cycles_of_a_client_limit_its_runs_only(server):
    with connect(server, timeout_cycles=100) as hasty, connect(server) as patient:
        with pytest.raises(DeviceError, match="the program has not ended after cycle 100"):
            right(hasty)
        assert right(patient)


# --- wrong uses


def test_without_a_server_the_error_says_so():
    with pytest.raises(RemoteError) as error:
        RemoteDevice(TINY, "pynq://127.0.0.1:9", connect_s=0.3)
    assert str(error.value) == (
        "pynq://127.0.0.1:9: server must listen on port 9, got a refused connection; "
        "start it with vdla board serve --listen, or check the port"
    )


def test_an_unknown_scheme_lists_the_known_ones():
    with pytest.raises(DeviceError) as error:
        open_device("vdla://127.0.0.1:1", TINY)
    assert str(error.value) == "device: address must be one of pynq://HOST:PORT, got vdla://127.0.0.1:1"


def test_a_port_in_use_is_an_error(server):
    with pytest.raises(
        RemoteError, match=f"server: address must be free to listen on, got 127.0.0.1:{server.address.port}"
    ):
        RemoteServer("sim", TINY, server.address.target)


def test_a_network_runs_on_a_remote_device(tmp_path):

    import vdla
    from vdla.networks.digits_images import training_digits
    from vdla.networks.registry import NETWORKS

    images = training_digits().images[:8]
    model = vdla.compile(NETWORKS["digits"].build(), target="pynq_z1", calibration=images)
    model.save(tmp_path / "digits.vdla")
    with RemoteServer("sim", Config.preset("pynq_z1"), "127.0.0.1:0") as server:
        with vdla.Model.load(tmp_path / "digits.vdla", device=str(server.address)) as remote:
            for image in images[:3]:
                assert (remote(image[None]) == model(image[None])).all()
        assert server.status().runs >= 3
