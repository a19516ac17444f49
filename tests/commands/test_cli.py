# SPDX-License-Identifier: Apache-2.0
"""The command line: help, exit codes, one-line errors, no colours in a pipe, atomic files."""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console

import vdla as package
from vdla.cli import main
from vdla.commands import BAD_INPUT, COMMANDS, EXIT_CODES, FAULT, OK, config_command, console
from vdla.compiler.operators.workloads import workloads
from vdla.hardware.config import PRESETS, Config
from vdla.support import atomic
from vdla.support.version import version_text

Capture = pytest.CaptureFixture[str]


def vdla(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line in its own process."""
    command = [sys.executable, "-m", "vdla", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)


def one_line_error(capsys: Capture, *arguments: str) -> tuple[int, str]:
    """The exit code and the error; checks that the error is one line, and the only output."""
    try:
        code = main(arguments)
    except SystemExit as stop:  # the argument parser exits by itself
        assert isinstance(stop.code, int)
        code = stop.code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("vdla: ")
    assert captured.err.count("\n") == 1
    return code, captured.err.removesuffix("\n")


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_fits_eighty_columns(
    command: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == OK
    text = capsys.readouterr().out
    assert f"  vdla {command}" in text.split("examples:")[1]
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_the_help_lists_every_command_and_exit_code(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"    {command} " in text for command in COMMANDS)
    assert EXIT_CODES in text
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_vdla_alone_prints_the_help(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert main([]) == OK
    assert capsys.readouterr() == (text, "")


def test_the_version_is_printed_with_the_commit(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"vdla {version_text()}\n"


def test_an_unknown_option_without_a_command_is_refused(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as error:
        main(["--versoin"])
    assert error.value.code == BAD_INPUT
    message = "vdla: command line: unknown option --versoin (did you mean --version?) (see vdla --help)\n"
    assert capsys.readouterr() == ("", message)


# --- errors ---------------------------------------------------------------------------------------


def test_an_unknown_command_is_refused_in_one_line(capsys: Capture) -> None:
    known = ", ".join(COMMANDS)
    assert one_line_error(capsys, "frob") == (BAD_INPUT, f"vdla: command must be one of {known}, got frob")
    _, message = one_line_error(capsys, "compil", "C2")
    assert message.endswith("got compil (did you mean compile?)")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("run", "x", "--devise", "rtl"),
            "run: unknown option --devise (did you mean --device?) (see vdla run --help)",
        ),
        (("run", "x", "--frob=3"), "run: unknown option --frob (see vdla run --help)"),
        (("doctor", "x"), "doctor: unexpected argument x (see vdla doctor --help)"),
        (("asm",), "asm: the following arguments are required: FILE.s (see vdla asm --help)"),
    ],
)
def test_unknown_options_and_missing_arguments_are_named(words: tuple[str, ...], message: str, capsys: Capture) -> None:
    assert one_line_error(capsys, *words) == (BAD_INPUT, f"vdla: {message}")


LAYERS = ", ".join(workloads())
MACHINES = ", ".join(PRESETS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("config", "pynqz1"), f"config: preset must be one of {MACHINES}, got pynqz1 (did you mean pynq_z1?)"),
        (("isa", "--preset", "Tiny"), f"config: preset must be one of {MACHINES}, got Tiny (did you mean tiny?)"),
        (("demo", "--layer", "C66"), f"workload: name must be one of {LAYERS}, got 'C66' (did you mean C6?)"),
        (("compile", "C66"), "got C66 (did you mean C6?)"),
        (("compile", "convd2"), "got convd2 (did you mean conv2d?)"),
        (("compile", "dense", "--shape", "row=3"), "got row (did you mean rows?)"),
        (("native", "sotfmax"), "got sotfmax (did you mean softmax?)"),
        (
            ("native", "softmax", "--shape", "column=3"),
            "must be one of rows, columns, got column (did you mean columns?)",
        ),
        (("native", "C6", "--target", "cortexa9"), "got 'cortexa9' (did you mean cortex-a9?)"),
        (("bench", "layer"), "got layer (did you mean layers?)"),
    ],
)
def test_the_closest_name_is_suggested(words: tuple[str, ...], message: str, capsys: Capture) -> None:
    code, said = one_line_error(capsys, *words)
    assert code == BAD_INPUT
    assert said.endswith(message)


def test_an_unknown_preset_lists_the_choices(capsys: Capture) -> None:
    code, message = one_line_error(capsys, "config", "pynq_z3")
    rule = f"preset must be one of {', '.join(PRESETS)}, got pynq_z3 (did you mean pynq_z2?)"
    assert (code, message) == (BAD_INPUT, f"vdla: config: {rule}")


def failing(error: Exception) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        raise error

    return run


def test_an_internal_error_asks_for_a_report(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_command, "run", failing(KeyError("lost")))
    code, message = one_line_error(capsys, "config")
    hint = "please report it with the output of the same command with --debug"
    assert (code, message) == (FAULT, f"vdla: internal error: KeyError: 'lost'; {hint}")


def test_a_plain_value_error_is_an_internal_error(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_command, "run", failing(ValueError("cannot broadcast")))
    assert one_line_error(capsys, "config")[0] == FAULT


def test_debug_shows_the_traceback(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_command, "run", failing(KeyError("lost")))
    assert main(["config", "--debug"]) == FAULT
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_interrupt_is_reported_in_one_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(config_command, "run", interrupted)
    assert one_line_error(capsys, "config") == (130, "vdla: interrupted")


def test_a_pipe_closed_by_its_reader_is_no_error() -> None:
    script = f"{sys.executable} -m vdla config | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (OK, "")


# --- output ---------------------------------------------------------------------------------------


def test_a_pipe_gets_no_colours() -> None:
    assert "\x1b" not in vdla("config").stdout


def test_no_color_is_honoured_where_colours_are_forced() -> None:
    assert "\x1b[2m" in vdla("config", FORCE_COLOR="1", TERM="xterm").stdout
    assert "\x1b[3" not in vdla("config", FORCE_COLOR="1", TERM="xterm", NO_COLOR="1").stdout


def test_config_lists_every_preset_in_eighty_columns(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["config"]) == OK
    text = capsys.readouterr().out
    assert all(name in text and config.fingerprint in text for name, config in PRESETS.items())
    assert max(map(len, text.splitlines())) <= 80


def test_config_as_json_makes_the_same_configuration(capsys: Capture) -> None:
    assert main(["config", "int4", "--json"]) == OK
    document = json.loads(capsys.readouterr().out)
    assert document.pop("fingerprint") == Config.preset("int4").fingerprint
    assert Config.from_dict(document) == Config.preset("int4")


# --- files ----------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    atomic.write_text(path, "old")

    def half(temporary: Path) -> None:
        temporary.write_text("ne")
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        atomic.write_with(path, half)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "result.txt"
    with pytest.raises(FileNotFoundError) as failure:
        atomic.write_text(path, "text")
    assert failure.value.filename == str(path)


@pytest.mark.parametrize("folder", ["/", "."])
def test_a_folder_is_refused_as_an_output_file(folder: str) -> None:
    with pytest.raises(IsADirectoryError):
        atomic.write_text(Path(folder), "text")


def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    link, path = tmp_path / "link.txt", tmp_path / "result.txt"
    link.symlink_to(path)
    atomic.write_text(link, "text")
    assert link.is_symlink()
    assert path.read_text() == "text"


def test_a_named_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    atomic.write_text(pipe, "text")
    assert os.read(reader, 99) == b"text"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize(("text", "rule"), [
    ("[" * 100_000, "content must be JSON, got maximum recursion depth exceeded"),
    ('{"batch": ' + "9" * 5000 + "}", "content must be JSON, got Exceeds the limit (4300 digits)"),
])  # fmt: skip
def test_json_beyond_pythons_limits_is_refused_in_one_line(
    text: str, rule: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text)
    code, message = one_line_error(capsys, "isa", "--config", str(path))
    assert code == BAD_INPUT
    assert message.startswith(f"vdla: {path}: {rule}")


def test_a_byte_order_mark_is_skipped(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "machine.json"
    path.write_text("{}", encoding="utf-8-sig")
    assert main(["isa", "--config", str(path)]) == OK
    assert capsys.readouterr().out


def test_a_key_of_the_shape_given_twice_is_refused(capsys: Capture) -> None:
    message = "vdla: compile dense: rows must be given once, got it twice"
    assert one_line_error(capsys, "compile", "dense", "--shape", "rows=4", "rows=5") == (BAD_INPUT, message)


def test_output_and_timing_only_exclude_each_other(capsys: Capture) -> None:
    message = "vdla: run: --output must be left out with --timing-only, got out"
    assert one_line_error(capsys, "run", "x.vdla", "--timing-only", "--output", "out") == (BAD_INPUT, message)


def test_an_interrupt_during_the_import_of_a_command_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vdla.cli.load", interrupted)
    assert main(["config"]) == 130
    assert capsys.readouterr().err == "vdla: interrupted\n"


def test_a_closed_standard_output_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["config", "tiny", "--json"]) == OK


@pytest.mark.parametrize("seed", ["-1", "x"])
def test_a_seed_must_be_a_non_negative_integer(seed: str, capsys: Capture) -> None:
    message = f"vdla: demo: argument --seed: value must be an integer from 0, got '{seed}' (see vdla demo --help)"
    assert one_line_error(capsys, "demo", f"--seed={seed}") == (BAD_INPUT, message)


# --- the public interface -------------------------------------------------------------------------


@pytest.mark.parametrize("name", package.__all__)
def test_every_public_name_of_vdla_exists(name: str) -> None:
    assert getattr(package, name) is not None
    assert name in dir(package)


@pytest.mark.parametrize(("name", "room"), [
    ("te", "vdla.compiler.te"),
    ("operators", "vdla.compiler.operators"),
    ("templates", "vdla.compiler.templates"),
    ("intrinsics", "vdla.compiler.intrinsics"),
    ("isa", "vdla.hardware.isa"),
])  # fmt: skip
def test_a_public_module_has_the_names_of_its_room(name: str, room: str) -> None:
    public, inner = import_module(f"vdla.{name}"), import_module(room)
    assert public is getattr(package, name)
    assert public.__all__ == inner.__all__
    assert public.__doc__ == inner.__doc__
    assert all(getattr(public, item) is getattr(inner, item) for item in inner.__all__)


@pytest.mark.parametrize("name", ["devices", "native"])
def test_every_name_of_a_public_module_exists(name: str) -> None:
    module = import_module(f"vdla.{name}")
    assert all(getattr(module, item) is not None for item in module.__all__)
    with pytest.raises(AttributeError) as failure:
        _ = module.nothing
    assert str(failure.value) == f"module 'vdla.{name}' has no attribute 'nothing'; it has {', '.join(module.__all__)}"


def test_an_unknown_public_name_lists_the_known_ones() -> None:
    known = r"it has ArrayPort, Buffer, .* \(did you mean compile\?\)"
    with pytest.raises(AttributeError, match=f"module 'vdla' has no attribute 'complie'; {known}"):
        _ = package.complie


def test_importing_vdla_loads_nothing_heavy() -> None:
    """Only modules of the command line, and no libraries."""
    script = (
        "import sys; before = set(sys.modules); import vdla, vdla.cli; vdla.cli.main([]);"
        "roots = {name.split('.')[0] for name in set(sys.modules) - before};"
        "ours = sorted(name for name in sys.modules if name.startswith('vdla.'));"
        "print(sorted(roots - sys.stdlib_module_names), ours)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    support = ["vdla.support", "vdla.support.errors", "vdla.support.suggest"]
    ours = ["vdla.cli", "vdla.commands", "vdla.commands.command_line", *support]
    assert done.stdout.splitlines()[-1] == f"['vdla'] {ours}"


# --- progress -------------------------------------------------------------------------------------


def test_short_work_shows_no_progress(capsys: Capture) -> None:
    with console.progress("bench") as show:
        show("one", 0, 2)
        show("two", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_long_work_without_a_terminal_prints_lines(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "PLAIN_EVERY_S", 0.0)
    with console.progress("bench") as show:
        show("one", 0, 2)
        show("two", 1, 2)
        show("three", 2, 0)
    assert capsys.readouterr() == ("", "bench: one (0/2)\nbench: two (1/2)\nbench: three (2)\n")


@pytest.mark.parametrize(("after_s", "shown"), [(0.0, True), (60.0, False)])
def test_a_terminal_gets_a_bar_once_the_work_is_long(
    after_s: float, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(console, "errors", lambda: terminal)
    monkeypatch.setattr(console, "SHOW_AFTER_S", after_s)
    with console.progress("bench") as show:
        show("layer C2", 1, 11)
    assert ("bench: layer C2" in screen.getvalue()) is shown


def test_a_failed_allocation_is_not_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise MemoryError("Unable to allocate 11.9 GiB")

    monkeypatch.setattr("vdla.commands.config_command.run", fail)
    assert main(["config"]) == BAD_INPUT
    assert capsys.readouterr().err == "vdla: out of memory: Unable to allocate 11.9 GiB\n"
