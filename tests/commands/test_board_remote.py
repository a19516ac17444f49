# SPDX-License-Identifier: Apache-2.0
"""`vdla board serve --listen`, `status` and `certificates`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vdla.cli import main
from vdla.hardware.config import Config
from vdla.runtime.remote.server import RemoteServer

Capture = pytest.CaptureFixture[str]


def test_serve_listens_until_it_is_terminated() -> None:
    command = [sys.executable, "-m", "vdla", "board", "serve", "--listen", "127.0.0.1:0", "--preset", "tiny"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("sim, tiny (74174378cfe6), at pynq://127.0.0.1:")
        assert main(["board", "status", line.split()[-1]]) == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_status_of_a_farm_says_who_does_not_answer(tmp_path: Path, capsys: Capture) -> None:
    with RemoteServer("sim", Config.preset("tiny"), "127.0.0.1:0") as server:
        farm = tmp_path / "farm.toml"
        farm.write_text(
            f'[[board]]\nname = "up"\naddress = "{server.address}"\n[[board]]\nname = "down"\naddress = "127.0.0.1:9"\n'
        )
        assert main(["board", "status", str(farm)]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines[2:-1]] == [
            "device", "configuration", "fingerprint", "clock", "power", "sessions", "queue", "memory", "cache", "runs",
            "opened", "uptime", "last",
        ]  # fmt: skip
        assert lines[-1] == (
            "down: pynq://127.0.0.1:9: server must listen on port 9, got a refused connection; "
            "start it with vdla board serve --listen, or check the port"
        )
        assert main(["board", "status", str(server.address), "--json"]) == 0
        (status,) = json.loads(capsys.readouterr().out).values()
        assert (status["device"], status["config"], status["sessions"]) == ("sim", "tiny", 0)


def test_certificates_are_written(tmp_path: Path, capsys: Capture) -> None:
    assert main(["board", "certificates", "-o", str(tmp_path / "c"), "--host", "localhost"]) == 0
    assert {path.name for path in (tmp_path / "c").iterdir()} == {
        "ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key",
    }  # fmt: skip
    assert capsys.readouterr().out.splitlines()[-1] == "keep ca.key apart: whoever has it can admit further clients"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            "--listen 0.0.0.0:1 --preset tiny",
            "server: credentials must be set to listen on 0.0.0.0, which others can reach, got none; "
            "make certificates with vdla board certificates and pass --tls",
        ),
        ("--device sim", "board serve: --device must be left out without --listen, got sim"),
        ("--listen a --limit run_s=x", "--limit: run_s must be a number, got 'x'"),
        ("--listen a --limit sessions=0", "limits: sessions must be a number above 0, got 0"),
        ("--listen x:y", "address: address must look like pynq://HOST:PORT, got x:y"),
        (
            "--listen 127.0.0.1:0 --device fpga",
            "device: name must be one of sim, rtl, pynq, got fpga",
        ),
    ],
)
def test_wrong_options(words: str, text: str, capsys: Capture) -> None:
    assert main(["board", "serve", *words.split()]) == 2
    assert capsys.readouterr().err == f"vdla: {text}\n"
