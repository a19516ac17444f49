# SPDX-License-Identifier: Apache-2.0
"""`vdla board serve`, and a virtual board as an object: addresses, messages, the end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vdla.hardware.config import Config

pytest.importorskip("pynq", reason="pynq is not installed (make test-board)")
grpc = pytest.importorskip("grpc", reason="pynq is not installed (make test-board)")

from vdla.benchmarks.board.virtual_client import free_address  # noqa: E402
from vdla.boards.board import load_board  # noqa: E402
from vdla.boards.virtual.faults import SlowBoard  # noqa: E402
from vdla.boards.virtual.server import ServeError  # noqa: E402
from vdla.boards.virtual.virtual_board import AddressError, VirtualBoard  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
START_S = 60
TINY, BOARD = Config.preset("tiny"), load_board("pynq_z1")


def serve(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "vdla", "board", "serve", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)


def line(process: subprocess.Popen[str]) -> str:
    ready, _, _ = select.select([process.stdout], [], [], START_S)
    assert ready, "the command has said nothing"
    return process.stdout.readline().rstrip()


def fails(*arguments: str) -> str:
    process = serve(*arguments)
    _, text = process.communicate(timeout=START_S)
    assert process.returncode == 2, text
    return text.rstrip()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_ended(tmp_path, client, end):
    address = free_address()
    with serve("--preset", "pynq_z1", "--address", address, "--overlay", str(tmp_path / "new" / "folder")) as process:
        try:
            bitstream = tmp_path / "new" / "folder" / "pynq_z1.bit"
            assert line(process) == f"overlay: {bitstream}"
            assert line(process) == (
                f"virtual PYNQ-Z1, pynq_z1 on sim, at {address}:7967, as images with Python 3.10 and NumPy 1.21.5; "
                f"clients: PYNQ_REMOTE_DEVICES={address}"
            )
            source = f"from pynq import Overlay\nprint(hex(Overlay({str(bitstream)!r}).vdla_0.read(0)))"
            assert client(address, source) == "0x56444c41\n"
            process.send_signal(end)
            _, text = process.communicate(timeout=20)
            assert (process.returncode, text) == (0, "interrupted\n" if end == signal.SIGINT else "")
        finally:
            process.kill()


def test_another_port_is_named_to_clients():
    with serve("--preset", "tiny", "--board", "zcu104", "--port", "0") as process:
        try:
            text = line(process)
            assert text.startswith("virtual ZCU104, tiny on sim, at 127.0.0.1:")
            assert text.endswith(f'; clients: RemoteDevice(0, "127.0.0.1", port={text.split(":")[1].split(",")[0]})')
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fault", "slow=x"), "vdla: fault slow: value must be an integer from 0 to 1073741824, got x"),
        (("--fabric", "fpga"), "vdla: fabric: name must be one of sim, rtl, got fpga"),
        (("--memory", "4096"), "vdla: board serve: --memory must be at most 1024 MiB, got 4096"),
        (("--preset", "tiny"), "vdla: board serve: --board must be one of aup_zu3, kr260, kv260, pynq_z1, pynq_z2, "
                               "ultra96_v2, zcu104, zybo_z7_20 for tiny, which none of them has as a preset, got none"),
        (("--address", "0.0.0.0"), "vdla: board serve: address must be a loopback address or unix:PATH, since "
                                   "PYNQ.remote has no passwords, got 0.0.0.0 (from another host, use ssh -L)"),
        (("--fault", "other-bitstream=z"), "vdla: fabric: preset must be one of "),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be(arguments, message):
    assert fails(*arguments).startswith(message)


def test_a_missing_package_is_one_sentence():
    code = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'pynq' else find(name, *rest)\n"
        "from vdla.cli import main; raise SystemExit(main(['board', 'serve']))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == 'vdla: virtual board: pynq must be installed, got none (pip install "vdla[board]")\n'
    assert done.returncode == 2


# --- as an object ---------------------------------------------------------------------------------


def test_a_board_in_this_process_ends_with_its_block():
    with VirtualBoard(BOARD, TINY, port=0, faults=(SlowBoard(1),)) as served:
        channel = grpc.insecure_channel(f"{served.address}:{served.port}")
        grpc.channel_ready_future(channel).result(timeout=10)
        assert (served.running, served.interrupt) == (False, False)
        channel.close()
    channel = grpc.insecure_channel(f"{served.address}:{served.port}")
    with pytest.raises(grpc.FutureTimeoutError):
        grpc.channel_ready_future(channel).result(timeout=0.5)
    channel.close()


def test_a_socket_of_the_file_system(tmp_path):
    with VirtualBoard(BOARD, TINY, address=f"unix:{tmp_path}/board"):
        channel = grpc.insecure_channel(f"unix:{tmp_path}/board:7967")
        grpc.channel_ready_future(channel).result(timeout=10)
        channel.close()


def test_a_port_that_is_taken():
    with VirtualBoard(BOARD, TINY, port=0) as served, pytest.raises(ServeError) as error:
        VirtualBoard(BOARD, TINY, port=served.port).start()
    assert str(error.value) == (
        f"board serve: address must be free, got 127.0.0.1:{served.port} (--address or --port gives another)"
    )


def test_an_address_that_others_reach():
    with pytest.raises(AddressError):
        VirtualBoard(BOARD, TINY, address="0.0.0.0")
