# SPDX-License-Identifier: Apache-2.0
"""Who holds a board, and boards that one client has alone."""

import getpass
import re
import socket

import pytest
from helpers.remote_clients import TINY, GatedDevice, right

from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.open_calls import board_status
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.runtime.remote.server import RemoteServer

ME = f"{getpass.getuser()}@{socket.gethostname()}"


@pytest.fixture
def server():
    with RemoteServer(GatedDevice, TINY, "127.0.0.1:0", limits=Limits(reserve_s=900)) as server:
        yield server


def opened(server, **options):
    return RemoteDevice(TINY, str(server.address), **options)


def refused(server, **options):
    with pytest.raises(RemoteError) as error:
        opened(server, **options)
    return str(error.value)


def test_the_status_says_who_holds_what(server):
    with opened(server, reserve_s=600) as device:
        device.allocate(5000)
        (client,) = board_status(str(server.address)).clients
        assert (client.client, client.connected, client.memory_bytes, client.blocks) == (ME, 1, 5000, 1)
        assert (client.queued, client.running) == (0, 0) and 590 < client.reserved_s <= 600
    assert board_status(str(server.address)).clients == ()


def test_a_reserved_board_opens_for_nobody_else_until_its_client_has_closed(server):
    with opened(server, reserve_s=600) as device:
        assert re.fullmatch(
            f"session: board must not be reserved, got a reservation of {ME} for another (600|599) s; try again then",
            refused(server),
        )
        assert right(device)
    with opened(server) as device:
        assert right(device)


def test_a_reservation_ends_with_its_time(server):
    with opened(server, reserve_s=1e-6), opened(server) as device:
        assert right(device)


def test_a_board_with_another_client_is_not_reserved(server):
    with opened(server) as device:
        assert refused(server, reserve_s=600) == (
            f"session: board must have no other client to be reserved, got {ME}; try again when they have ended"
        )
        assert right(device)


@pytest.mark.parametrize("seconds", [0, -1, 901, float("inf"), float("nan")])
def test_the_seconds_of_a_reservation_are_limited(server, seconds):
    assert refused(server, reserve_s=seconds) == (
        f"session: seconds of a reservation must be above 0 and at most 900, got {seconds:g}"
    )
