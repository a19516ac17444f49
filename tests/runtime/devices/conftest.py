# SPDX-License-Identifier: Apache-2.0
"""The devices that are present: pynq, on a virtual board, where its client is installed."""

from __future__ import annotations

import os

import pytest
from helpers.virtual_boards import pynq_is_present, virtual_board, write_bitstream

from vdla.benchmarks.board.virtual_client import FABRIC
from vdla.hardware.config import Config


@pytest.fixture(scope="session")
def pynq_board(tmp_path_factory):
    """The address of a virtual board with the simulator behind it, for this process.

    `open_device("pynq", config)` finds the bitstream of `tiny`.
    """
    if not pynq_is_present():
        pytest.skip("pynq is not installed (make test-board)")
    folder = tmp_path_factory.mktemp("overlays")
    config = Config.preset("tiny")
    write_bitstream(folder, config)
    with virtual_board(config, fabric=os.environ.get(FABRIC, "sim")) as address:
        os.environ.update(PYNQ_REMOTE_DEVICES=address, VDLA_OVERLAYS=str(folder))
        import pynq
        from pynq.pl_server.remote_device import RemoteDevice

        pynq.Device.active_device = RemoteDevice(0, address)  # other tests may have used another board
        yield address
