# SPDX-License-Identifier: Apache-2.0
"""Faults of a virtual board as the unmodified client meets them."""

from __future__ import annotations

import pytest
from helpers.virtual_boards import write_bitstream

from vdla.hardware.config import Config

pytest.importorskip("pynq", reason="pynq is not installed (make test-board)")

OPEN = """
import time
import numpy as np
from pynq import Overlay, allocate
accelerator = Overlay({bitstream!r}).vdla_0

def start(count=0):
    accelerator.write(0x2C, count)
    accelerator.write(0x18, 3)
    accelerator.write(0x10, 1)

def wait(seconds=20):
    end = time.monotonic() + seconds
    while accelerator.read(0x14) & 1 and time.monotonic() < end:
        pass
    return accelerator.read(0x14)
"""


@pytest.fixture
def opened(client, tmp_path):
    """`opened(address, source)`: what a client prints that has loaded the overlay of `tiny`."""
    bitstream = str(write_bitstream(tmp_path, Config.preset("tiny")))
    return lambda address, source: client(address, OPEN.format(bitstream=bitstream) + source)


def test_a_lost_interrupt_is_no_loss_for_who_polls(served, opened):
    source = "start()\nprint(wait(), accelerator.read(0x18))"
    assert opened(served("lost-interrupt"), source) == "2 3\n"


def test_a_slow_board_takes_its_time_for_every_request(served, opened):
    source = """
begin = time.monotonic()
for _ in range(10):
    accelerator.read(0)
print(time.monotonic() - begin >= 0.3)
"""
    assert opened(served("slow=30"), source) == "True\n"


def test_a_slow_fabric_is_busy_for_its_time(served, opened):
    source = "begin = time.monotonic()\nstart()\nprint(wait(), time.monotonic() - begin >= 0.6)"
    assert opened(served("slow-fabric=600"), source) == "2 True\n"


def test_a_connection_drops_in_a_run_and_comes_back(served, opened):
    source = """
import grpc
buffer = allocate((100,), "u1")
buffer[:] = 7
buffer.flush()
start()
failures = 0
while True:
    try:
        status = accelerator.read(0x14)
        if not status & 1 and failures:
            break
    except grpc.RpcError as error:
        failures += 1
        code = error.code()
        time.sleep(0.1)
print(failures > 0, code, status)
buffer[:] = 0
buffer.invalidate()
print(buffer.min())
"""
    assert opened(served("dropped-connection=3"), source).splitlines() == ["True StatusCode.UNAVAILABLE 2", "7"]


def test_another_bitstream_has_another_fingerprint(served, opened):
    source = "print(f'{accelerator.read(0xC):04x}{accelerator.read(8):08x}')"
    assert opened(served("other-bitstream=pynq_z1"), source).strip() == Config.preset("pynq_z1").fingerprint


def test_a_full_memory_has_what_it_was_left(served, opened):
    source = """
allocate((8192,), "u1")
kept = allocate((4096,), "u1")
try:
    allocate((8192,), "u1")
except Exception as error:
    print(error.details())
"""
    assert opened(served("full-memory=8192"), source) == (
        "contiguous memory: cannot allocate 8192 bytes, 4096 of 134217728 are free; "
        "free buffers or raise cma= on the kernel's command line\n"
    )


def test_a_bit_flips_at_a_start(served, opened):
    source = """
buffer = allocate((1000,), "u1")
buffer[:] = 0
buffer.flush()
for _ in range(3):
    start()
    wait()
    buffer.invalidate()
    print(int(np.unpackbits(np.array(buffer)).sum()))
"""
    assert opened(served("flipped-bit=4"), source).split() == ["1", "1", "1"]
    assert opened(served(), source).split() == ["0", "0", "0"]


@pytest.mark.rtl
def test_the_progress_of_the_rtl_is_seen_while_it_runs(served, opened, tmp_path):
    """A stream of SYNC instructions, long enough for a client to look at it several times."""
    source = """
from vdla.hardware.config import Config
from vdla.hardware.isa import Sync, Unit, encode
words = encode(Config.preset("tiny"), [Sync(Unit.LOAD)] * 20000).reshape(-1)
buffer = allocate(words.shape, "u1")
buffer[:] = words
buffer.flush()
accelerator.write(0x24, buffer.physical_address)
start(20000)
seen = []
while accelerator.read(0x14) & 1:
    seen.append(accelerator.read(0x48))
print(len(set(seen)) > 3, seen == sorted(seen), accelerator.read(0x48), accelerator.read(0x14))
"""
    assert opened(served(fabric="rtl"), source) == "True True 20000 2\n"
