# SPDX-License-Identifier: Apache-2.0
"""The options that select the machine and its DRAM, and the values of KEY=VALUE options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from vdla.commands import CommandError
from vdla.commands.options import add_options
from vdla.hardware.config import Config, ConfigError, Dram
from vdla.hardware.dram import PARTS
from vdla.hardware.dram_model import DramModel
from vdla.support.json_file import read_table
from vdla.support.suggest import did_you_mean, one_of

DEFAULT_PRESET = "pynq_z1"
MODEL_SUFFIX = ".json"  # of a file that --dram takes


def add_machine_arguments(parser: argparse.ArgumentParser, words: str = "--preset --target") -> None:
    """--preset, which is --target too where a command has no other, --config and --extension."""
    options = {
        f"{words} NAME": f"the machine, by name (default {DEFAULT_PRESET}; vdla config lists them)",
        "--config FILE": "the machine as JSON, like vdla config NAME --json, or the file of a board",
    }
    add_options(parser.add_mutually_exclusive_group(), options)
    add_extension_argument(parser, "an instruction to add to the machine")


def add_extension_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """--extension."""
    help_text = f"{what}: a Python file that declares it, or an entry point; repeatable"
    parser.add_argument("--extension", action="append", default=[], metavar="FILE", help=help_text)


def check_machine(extensions: Sequence[str], config: Path | None) -> None:
    """Make extensions known, for files that name them, and read the file of a machine."""
    if extensions:
        from vdla.compiler.extensions import load_extension

        for source in extensions:
            load_extension(source)
    if config is not None:
        read_config(config)


def machine(arguments: argparse.Namespace) -> Config:
    """The configuration that the options name, with its extensions."""
    config = read_config(arguments.config) if arguments.config else Config.preset(arguments.preset or DEFAULT_PRESET)
    return with_extensions(config, arguments.extension)


def with_extensions(config: Config, extensions: Sequence[str]) -> Config:
    """The configuration with the extensions that --extension names."""
    if not extensions:
        return config
    from vdla.compiler.extensions import extend

    return extend(config, *extensions)


def read_config(path: Path) -> Config:
    """A configuration in a JSON file, with or without its fingerprint, or that of a board."""
    document = read_table(path, CommandError)
    if "processor" in document:  # which boards have, and no machine
        from vdla.boards.board import load_board

        return load_board(path).config()
    stated = document.pop("fingerprint", None)
    try:
        config = Config.from_dict(document)
    except ConfigError as error:
        raise CommandError(f"{path}: {error}") from None
    if stated not in (None, config.fingerprint):
        raise CommandError(f"{path}: fingerprint must be {config.fingerprint} for these fields, got {stated}")
    return config


# --- the memory -----------------------------------------------------------------------------------


def add_dram_arguments(parser: argparse.ArgumentParser) -> None:
    """--dram."""
    names = ", ".join(field.name for field in fields(Dram))
    text = (
        f"fields of the DRAM model to replace, after FILE.json with a measured one or the name of a memory behind "
        f"the ports ({', '.join(PARTS)}): {names}"
    )
    add_options(parser, {"--dram KEY=VALUE...": text})


def with_dram(config: Config, settings: Sequence[str]) -> Config:
    """The configuration with the DRAM model of a file, or with the memory that the first word
    names, and then with some fields replaced.
    """
    dram, rest = config.dram, list(settings)
    if rest and rest[0].endswith(MODEL_SUFFIX):
        dram = DramModel.load(rest.pop(0)).dram
    elif rest and "=" not in rest[0]:
        dram = dram.with_part(_require_part(rest.pop(0)), config.clock_mhz)
    for word in rest:
        if word.endswith(MODEL_SUFFIX):
            raise CommandError(f"--dram: a file must be the first word, got {word} after {settings[0]}")
    return replace(config, dram=replace(dram, **integers("--dram", rest, [f.name for f in fields(Dram)])))


def _require_part(word: str) -> str:
    if word not in PARTS:
        raise CommandError(
            f"--dram: the first word must be KEY=VALUE, a {MODEL_SUFFIX} file or one of {', '.join(PARTS)}, "
            f"got {word}{did_you_mean(word, PARTS)}"
        )
    return word


def integers(where: str, settings: Sequence[str], known: Sequence[str], option: str | None = None) -> dict[str, int]:
    """The integers of the KEY=VALUE words of an option; every key must be known and given once."""
    values: dict[str, int] = {}
    for setting in settings:
        key, value = key_and_value(option or where, setting)
        if key not in known:
            raise CommandError(f"{where}: key must be {one_of(key, known)}")
        if key in values:
            raise CommandError(f"{where}: {key} must be given once, got it twice")
        values[key] = integer(f"{where}: {key}", value)
    return values


def part_offsets(settings: Sequence[str]) -> dict[str, int]:
    """The bytes of the PART=BYTES words of --offset."""
    offsets: dict[str, int] = {}
    for setting in settings:
        part, value = name_and_value("--offset", setting)
        if part in offsets:
            raise CommandError(f"--offset: {part} must be given once, got it twice")
        offsets[part] = integer(f"--offset: {part}", value)
    return offsets


def key_and_value(option: str, setting: str) -> tuple[str, str]:
    """The two sides of KEY=VALUE."""
    key, sign, value = setting.partition("=")
    if not sign or not key:
        raise CommandError(f"{option}: setting must look like KEY=VALUE, got {setting!r}")
    return key, value


def name_and_value(option: str, setting: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE, whose name may contain `=`."""
    name, _, value = setting.rpartition("=")
    return (name, value) if name else key_and_value(option, setting)


def integer(where: str, value: str) -> int:
    """An integer in decimal."""
    try:
        return int(value)
    except ValueError:
        raise CommandError(f"{where} must be an integer, got {value!r}") from None
