"""The figures of remote devices, in their short forms; a fault of a layer shows in its figure."""

import pytest
from helpers.remote_clients import TINY, GatedDevice

from vdla.benchmarks.board.clients import _figures, clients
from vdla.benchmarks.board.faults import DeviceFaults, NetworkFaults
from vdla.benchmarks.board.hostile_messages import hostile_messages
from vdla.benchmarks.board.remote_overhead import remote_overhead
from vdla.runtime.remote.channel import board_status
from vdla.runtime.remote.server import RemoteServer


def test_the_overhead_of_a_remote_run_is_a_few_milliseconds():
    found = remote_overhead(calls=10)
    assert found["wrong"] == 0
    assert 0.9 < found["accelerator_ms"] < 1.2
    assert 0 < found["remote_overhead_ms"] < 50  # the bar is 5 on a machine that does nothing else


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
