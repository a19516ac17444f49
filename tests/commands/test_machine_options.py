# SPDX-License-Identifier: Apache-2.0
"""Options that name a machine or an extension: no command takes them and passes them over."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.extension_files import again

from vdla.cli import main, parsers
from vdla.commands import BAD_INPUT, COMMANDS, OK, load
from vdla.hardware.config import PRESETS
from vdla.runtime.executor.artifact import Artifact

Capture = pytest.CaptureFixture[str]
Parser = argparse.ArgumentParser

FILES = {"--extension": "extension: none.py: no such file", "--config": "none.py: no such file"}
READERS = {"explain", "profile", "run", "compare", "verify", "asm", "disasm", "pack", "unpack"}
"""Commands that read files which may name extensions."""


def every_parser() -> Iterator[tuple[tuple[str, ...], Parser]]:
    """All commands and subcommands with their parsers."""
    _, found = parsers({name: load(name) for name in COMMANDS})
    for name, parser in found.items():
        groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        yield from (((name, sub), own) for group in groups for sub, own in group.choices.items())
        if not groups:
            yield (name,), parser


PARSERS = dict(every_parser())
TAKES = [(words, option) for words, parser in PARSERS.items() for option in FILES if option in parser.format_help()]
MODES = [
    *(([*words], option) for words, option in TAKES),
    (["compile", "--list"], "--extension"),
    (["compile", "model.onnx"], "--extension"),
    (["tune", "model.onnx"], "--extension"),
    (["tune", "C6", "--target", "host"], "--extension"),
    (["tune", "C6", "--target", "opencl"], "--extension"),
    (["isa", "--datapath"], "--extension"),
    (["demo", "--layer", "C6"], "--extension"),
]


def required(parser: Parser) -> Iterator[str]:
    """Words for the arguments that must be given."""
    for action in parser._actions:
        count = 1 if action.nargs in (None, "+") else 0
        if action.required and action.option_strings:
            yield from (action.option_strings[0], *["none"] * count)


def positional(parser: Parser) -> list[str]:
    actions = (action for action in parser._actions if not action.option_strings and action.nargs in (None, "+"))
    return ["none.vdla" for _ in actions]


@pytest.mark.parametrize(("words", "option"), MODES)
def test_a_file_that_does_not_exist_is_an_error_everywhere(
    words: list[str], option: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = PARSERS.get(tuple(words))
    own = [] if parser is None else [*positional(parser), *required(parser)]
    assert main([*words, *own, option, "none.py"]) == BAD_INPUT
    assert capsys.readouterr().err.startswith(f"vdla: {FILES[option]}")
    assert list(tmp_path.iterdir()) == []


def test_what_can_name_an_extension_takes_its_file() -> None:
    takes = {option: {words for words, found in TAKES if found == option} for option in FILES}
    assert takes["--config"] <= takes["--extension"]
    assert {(name,) for name in READERS} <= takes["--extension"]


# --- models ---------------------------------------------------------------------------------------


@pytest.fixture
def forgets(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forgets all extensions, as another process does."""

    def forget() -> None:
        monkeypatch.setattr("vdla.hardware.extensions._LOADED", {})

    forget()
    return forget


def test_a_model_for_a_machine_with_an_extension_is_read_with_its_file(
    digits: Path, tmp_path: Path, forgets: Callable[[], None], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "again.py").write_text(again())
    words = ["compile", str(digits / "digits.onnx"), "--calibration", str(digits / "calibration.npy"), "-o", "m.vdla"]
    assert main([*words, "--extension", "again.py"]) == OK
    missing = "of again.py must be loaded, with vdla.load_extension or --extension again.py; none is loaded"
    commands = [
        ["explain", "m.vdla"],
        ["profile", "m.vdla", "--runs", "1"],
        ["run", "m.vdla", "--random-inputs", "0"],
        ["compare", "sim", "sim", "m.vdla"],
    ]
    for command in commands:
        forgets()
        capsys.readouterr()
        assert main(command) == BAD_INPUT
        message = capsys.readouterr().err
        assert message.count("\n") == 1 and "extension again#" in message and message.endswith(f"{missing}\n")
        assert main([*command, "--extension", "again.py"]) == OK
    (program,) = Artifact.load("m.vdla").programs
    assert [plug_in.name for plug_in in program.config.extensions] == ["again"]


@pytest.mark.parametrize("target", ["host", "opencl", "pynq_z11"])
def test_only_a_machine_can_have_an_extension(
    target: str, digits: Path, tmp_path: Path, forgets: Callable[[], None], capsys: Capture
) -> None:
    source, file = str(digits / "digits.onnx"), str(tmp_path / "again.py")
    Path(file).write_text(again())
    assert main(["compile", source, "--target", target, "--extension", file]) == BAD_INPUT
    hint = " (did you mean pynq_z1?)" if target == "pynq_z11" else ""
    rule = f"--target must be a machine ({', '.join(PRESETS)}) with --extension {file}"
    assert capsys.readouterr().err == f"vdla: compile: {rule}, got {target}{hint}\n"
