# SPDX-License-Identifier: Apache-2.0
"""The figures of remote devices, in their short forms; a fault of a layer shows in its figure."""

import pytest
from helpers.remote_clients import TINY, GatedDevice

from vdla.benchmarks.board.clients import _figures, clients
from vdla.benchmarks.board.faults import DeviceFaults, NetworkFaults
from vdla.benchmarks.board.hostile_messages import hostile_messages
from vdla.benchmarks.board.remote_overhead import remote_overhead
from vdla.runtime.remote.channel import Channel
from vdla.runtime.remote.open_calls import board_status
from vdla.runtime.remote.server import RemoteServer


@pytest.fixture
def messages(monkeypatch):
    """The name of every call of a server, with the bytes that are sent and received."""
    function, seen = Channel.function, []

    def recorded(channel, name):
        call = function(channel, name)

        def answer(frame, timeout_s):
            reply = call(frame, timeout_s)
            seen.append((name, len(frame), len(reply)))
            return reply

        return answer

    monkeypatch.setattr(Channel, "function", recorded)
    return seen


def test_a_remote_run_is_one_message_with_its_input_and_one_with_its_output(messages):
    """The weights go once; how long a run takes is the benchmark's to say."""
    found = remote_overhead(calls=10)
    assert (found["wrong"], found["calls"]) == (0, 10)
    assert 0.9 < found["accelerator_ms"] < 1.2 and found["remote_overhead_ms"] > 0
    names = [name for name, _, _ in messages]
    assert names[-12:] == ["Submit"] * 11 + ["Close"]  # the end of the first run, ten runs
    assert len(names) <= 11 + 12 and names.count("Upload") == 2
    assert all(66_000 < sent < 167_000 and 155_000 < received < 156_000 for _, sent, received in messages[-11:-1])


@pytest.mark.slow
def test_clients_with_faults_get_every_result_once():
    faults = DeviceFaults(error=0.1, crash=0.02, slow=0.1, slow_s=0.05, endless=0)
    found = clients(2, 12, seed=5, kills=1, device_faults=faults, network_faults=NetworkFaults(0.03, 0.02))
    zeros = ("wrong", "lost", "duplicated", "leaked_buffers", "hangs", "given_up", "failed_clients")
    assert {name: found[name] for name in zeros} == dict.fromkeys(zeros, 0), found
    assert found["runs"] == 24
    assert found["clear_errors"] + found["cuts"] + found["flips"] > 0


def test_malformed_messages_do_no_harm():
    found = hostile_messages(300, seed=1)
    zeros = ("crashes", "canary_changed", "canary_read", "memory_unbounded")
    assert {name: found[name] for name in zeros} == dict.fromkeys(zeros, 0), found
    assert found["fuzzed"] == 300
    assert found["answers"]["refused"] > 100


def test_journals_show_what_went_wrong():
    lines = ["s 0", "r 0 ok", "s 1", "r 1 wrong", "s 1", "r 1 ok", "s 2", *["e 3 text"] * 50]
    found = _figures([lines], 4, 6)
    assert (found["wrong"], found["duplicated"], found["lost"], found["given_up"]) == (1, 1 + 2, 1, 1)


def test_a_leak_shows_in_the_status():
    with RemoteServer(GatedDevice, TINY, "127.0.0.1:0") as server:
        server.service.worker.memory.blocks += 1
        assert board_status(str(server.address)).blocks == 1
