# SPDX-License-Identifier: Apache-2.0
"""The commands of the package for boards, on the simulator: texts and exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.plans import expected, small_artifact
from helpers.small_programs import small_gemm

from vdla.boards.board import load_board
from vdla.boards.overlay_files import write_overlay
from vdla.cli import main as vdla
from vdla.commands.on_board import info_command, main, selftest_command
from vdla.hardware.config import Config
from vdla.runtime.devices import registry
from vdla.runtime.devices.sim import SimDevice
from vdla.runtime.diagnosis.check_programs import simulated_programs
from vdla.runtime.diagnosis.known_program import known_bytes
from vdla.runtime.remote.server import RemoteServer
from vdla.support.version import VERSION

Capture = pytest.CaptureFixture[str]
TINY = Config.preset("tiny")


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the bitstream of a PYNQ-Z2, which is the current one."""
    folder = tmp_path / "overlay"
    folder.mkdir()
    write_overlay(load_board("pynq_z2"), Config.preset("pynq_z2"), folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known programs of the machine `tiny`."""
    (tmp_path / f"{TINY.fingerprint}.npz").write_bytes(known_bytes(simulated_programs(TINY)))
    monkeypatch.setattr(selftest_command, "KNOWN_PROGRAMS", tmp_path)


def test_a_network_runs(tmp_path: Path, capsys: Capture) -> None:
    small_artifact().save(tmp_path / "m.vdla")
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    words = ["run", str(tmp_path / "m.vdla"), "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "out")]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(", 1 run") and lines[1].split() == ["device", "steps", "cycles", "time", "a", "run"]
    written = Path(lines[-1].removeprefix("wrote "))
    assert np.allclose(np.load(written), expected(x), atol=1e-5)
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 1


def test_a_program_runs_on_another_board(tmp_path: Path, capsys: Capture) -> None:
    program, inputs, out = small_gemm(TINY)
    program.save(tmp_path / "p.vdla")
    words = []
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        words.append(f"{name}={tmp_path / name}.npy")
    with RemoteServer("sim", TINY, "127.0.0.1:0", transport="http") as server:
        command = ["run", str(tmp_path / "p.vdla"), "--device", str(server.address), "--input", *words]
        assert main([*command, "--output", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["device", "cycles", "time"]
    assert lines[2].split()[:2] == ["vdla", "(tiny)"]
    assert (np.load(tmp_path / "out" / "out.npy") == out).all()


@pytest.mark.usefixtures("programs")
def test_the_selftest_checks_with_known_programs(capsys: Capture) -> None:
    with RemoteServer("sim", TINY, "127.0.0.1:0", transport="http") as server:
        assert main(["selftest", "--device", str(server.address), "--preset", "tiny"]) == 0
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert lines[0] == f"self-test of {server.address} as tiny"
        assert [line.split()[-2] for line in lines if line.startswith(("tokens", "stores", "compiled"))] == ["ok"] * 4
    assert lines[-1] == "everything works"


def test_a_machine_without_known_programs(capsys: Capture) -> None:
    with RemoteServer("sim", TINY, "127.0.0.1:0", transport="http") as server:
        assert main(["selftest", "--device", str(server.address), "--preset", "tiny"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "programs: not run, since this package has none for tiny; vdla board selftest has",
        "everything works",
    ]


def test_the_bitstream_names_the_machine(overlay: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def opened(config: Config, **options: object) -> SimDevice:
        seen.append((config.name, options))
        return SimDevice(config)

    monkeypatch.setattr(registry, "DEVICES", {"pynq": opened})
    assert main(["selftest"]) == 0
    assert main(["selftest", "--bitstream", "pynq_z2.bit"]) == 0
    assert seen == [("pynq_z2", {}), ("pynq_z2", {"bitstream": Path("pynq_z2.bit")})]
    capsys.readouterr()
    write_overlay(load_board("zcu104"), Config.preset("zcu104"), overlay)
    assert main(["selftest"]) == 2
    assert capsys.readouterr().err == (
        "vdla_board: selftest: --bitstream must be given unless $VDLA_OVERLAYS, the current folder and installed "
        "packages have one together, got pynq_z2.bit, zcu104.bit\n"
    )


@pytest.mark.usefixtures("overlay")
def test_info_names_versions_memory_and_bitstreams(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text(
        "MemTotal: 508000 kB\nMemAvailable: 300000 kB\nCmaTotal: 131072 kB\nCmaFree: 120000 kB\nHugePages_Total: 0\n"
    )
    (tmp_path / "board").write_bytes(b"Pynq-Z2\0")
    monkeypatch.setattr(info_command, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(info_command, "BOARD", tmp_path / "board")
    monkeypatch.setattr(info_command, "NOTE", tmp_path / "note")
    assert main(["info"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == ["this board", "what is", f"vdla_board {VERSION}"]
    assert lines[5:] == [
        lines[5], "board Pynq-Z2", lines[7], "memory 496 MiB", "memory, available 292 MiB", "contiguous 128 MiB",
        "contiguous, free 117 MiB", "", "bitstreams", "bitstream machine fingerprint build", lines[-1],
    ]  # fmt: skip
    assert lines[-1].startswith(f"pynq_z2.bit pynq_z2 {Config.preset('pynq_z2').fingerprint} ")
    monkeypatch.chdir(tmp_path)
    client = {
        "key": "1",
        "client": "ada@pynq",
        "machine": "m",
        "file": "f",
        "memory_bytes": 0,
        "since_s": 0,
        "seen_s": 0,
    }
    (tmp_path / "note").write_text(json.dumps({"clients": [client]}))
    assert info_command.board_facts()["open by"] == "ada@pynq"
    assert info_command.board_facts()["loaded"] == "none noted"
    (tmp_path / "note").write_bytes(b"")
    assert info_command.board_facts()["open by"] == "nobody"
    assert main(["info"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "bitstreams: none with a .hwh beside it, in $VDLA_OVERLAYS, the current folder or installed packages"
    )


def test_serve_answers_the_client_on_a_computer(tmp_path: Path, capsys: Capture) -> None:
    """A device of another server stands in for the bitstream."""
    with RemoteServer("sim", TINY, "127.0.0.1:0") as behind:
        command = [sys.executable, "-m", "vdla.commands.on_board", "serve", "--listen", "127.0.0.1:0"]
        machine = ["--device", str(behind.address), "--preset", "tiny"]
        with subprocess.Popen([*command, *machine], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(f"{behind.address}, tiny (74174378cfe6), at pynq://127.0.0.1:")
            program, _, _ = small_gemm(TINY)
            program.save(tmp_path / "p.vdla")
            assert vdla(["board", "status", line.split()[-1]]) == 0
            assert vdla(["run", str(tmp_path / "p.vdla"), "--random-inputs", "0", "--device", line.split()[-1]]) == 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("runn", "command must be one of run, selftest, serve, info, got runn (did you mean run?)"),
        ("run", "run: the following arguments are required: PROGRAM (see python -m vdla_board run --help)"),
        ("info --x", "info: unknown option --x (see python -m vdla_board info --help)"),
        ("selftest --device pynq://a:1", "selftest: --preset or --config must be given for pynq://a:1, got none"),
        (
            "selftest --device pynq://a:1 --bitstream b.bit --preset tiny",
            "selftest: --device must be pynq with --bitstream b.bit, got pynq://a:1",
        ),
        (
            "serve --listen 0.0.0.0:1 --preset tiny",
            "server: credentials must be set to listen on 0.0.0.0, which others can reach, got none; make certificates "
            "with vdla board certificates and pass --tls",
        ),
        ("selftest --bitstream absent.bit", "absent.hwh: no such file"),
    ],
)
def test_mistakes(words: str, text: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main(words.split())
    except SystemExit as error:  # of argparse
        code = error.code
    assert code == 2
    assert capsys.readouterr().err == f"vdla_board: {text}\n"
