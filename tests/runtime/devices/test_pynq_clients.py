# SPDX-License-Identifier: Apache-2.0
"""Two clients of PYNQ on one virtual board: no run of theirs is wrong without the sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.sole_runs import OURS, THEIRS, TINY, outcome
from helpers.virtual_boards import held_buffers

from vdla.runtime.devices.pynq_device import PynqDevice

ROOT = Path(__file__).resolve().parents[3]
CLIENT = """
import sys

from helpers.sole_runs import OURS, THEIRS, TINY, outcome

from vdla.runtime.devices.pynq_device import PynqDevice

inputs = (OURS, THEIRS)[int(sys.argv[1])]
with PynqDevice(TINY, bitstream=sys.argv[2]) as device:
    print("open", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[3])):
        print(outcome(device, inputs), flush=True)
"""


def test_runs_of_two_threads_are_right_or_say_that_they_were_not_alone(pynq_board):
    from pynq.pl_server.remote_device import RemoteDevice

    with (
        PynqDevice(TINY, target=RemoteDevice(1, pynq_board)) as ours,
        PynqDevice(TINY, target=RemoteDevice(2, pynq_board)) as theirs,
        ThreadPoolExecutor(2) as threads,
    ):
        for _ in range(20):
            pair = [threads.submit(outcome, device, inputs) for device, inputs in ((ours, OURS), (theirs, THEIRS))]
            assert all(isinstance(run.result(), str) for run in pair)
        assert outcome(ours) == outcome(theirs, THEIRS) == "right"
    assert held_buffers() == []


@pytest.mark.long
def test_hundreds_of_runs_of_two_processes(pynq_board):
    bitstream = Path(os.environ["VDLA_OVERLAYS"]) / "tiny.bit"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PYNQ_REMOTE_DEVICES": pynq_board}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    clients = []
    for number in range(2):  # one opens after the other: the client keeps its state in one file
        command = [sys.executable, "-W", "ignore", "-c", CLIENT, str(number), str(bitstream), "200"]
        clients.append(subprocess.Popen(command, env=environment, **pipes))
        assert clients[-1].stdout.readline() == "open\n"
    for client in clients:
        client.stdin.write("go\n")
        client.stdin.flush()
    said = [client.communicate(timeout=300)[0].splitlines() for client in clients]
    assert [client.returncode for client in clients] == [0, 0]
    assert [len(lines) for lines in said] == [200, 200]
    assert {"right"} < {line for lines in said for line in lines}  # and the sentence: they did meet
    assert held_buffers() == []
