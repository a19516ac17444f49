# SPDX-License-Identifier: Apache-2.0
"""Options as commands declare them: how each is written, and its help.

Shells complete the words of an option that `_COMPLETIONS` names; `vdla completion SHELL` prints the
script for the shell. argcomplete asks the parser.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from vdla.commands import CommandError


def natural(value: str) -> int:
    """The type of an option whose value is an integer from 0."""
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f"value must be an integer from 0, got {value!r}")
    return int(value)


def positive(value: str) -> int:
    """The type of an option whose value is an integer from 1."""
    if not value.isdecimal() or not int(value):
        raise argparse.ArgumentTypeError(f"value must be an integer from 1, got {value!r}")
    return int(value)


_TYPES: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("FILE", "DIR", "FOLDER", "MODEL", "PROGRAM"), Path),
    **dict.fromkeys(("N", "S", "CYCLES", "MIB"), positive),
    "SEED": natural,
    **dict.fromkeys(("MHZ", "PERCENT"), float),
}
"""The type of a value by how it is written, up to a dot; of any other a text."""

_COMPLETIONS = {
    "--preset": "vdla.hardware.config:PRESETS",
    "--target": "vdla.hardware.config:PRESETS",
    "--for": "vdla.hardware.config:PRESETS",
    "preset": "vdla.hardware.config:PRESETS",
    "--part": "vdla.hardware.fpga.parts:PARTS",
    "--device": "vdla.runtime.devices:DEVICES",
    "--fabric": "vdla.boards.virtual.fabrics:NAMES",
    "board": "vdla.boards.board:board_names",
    "--layers": "vdla.compiler.operators.workloads:workloads",
    "--model": "vdla.networks.registry:NETWORKS",
    "--search": "vdla.compiler.tune.searches:SEARCHES",
}
"""What completes the value of an option: names, or a function that gives them."""


def add_options(
    parser: argparse._ActionsContainer,
    options: Mapping[str, str],
    complete: str | Callable[[], Iterable[str]] | None = None,
    **more: Any,  # noqa: ANN401  of argparse
) -> None:
    """Declare options by help: "-o --output FILE", "--device NAME = sim", "--all", "model MODEL".

    A word in capitals is a value, of the type that `_TYPES` has for it, a list with "..." behind
    it; "=" comes before a default. An option without a value is a flag. `complete` has the words of
    the values, looked up at completion only; `more` is what argparse is told besides.
    """
    for written, text in options.items():
        usage, _, default = written.partition(" = ")
        names = [word for word in usage.split() if word[0] == "-" or word[0].islower()]
        value = usage.removeprefix(" ".join(names)).strip()
        kind = _TYPES.get(value.removesuffix("...").partition(".")[0], str)
        settings: dict[str, Any] = {"action": "store_true"}
        if value:
            settings = {"metavar": value.removesuffix("..."), "type": kind}
        if value.endswith("..."):
            settings |= {"nargs": "+", "default": []}
        if default:
            settings["default"] = default
        if names[-1] == "--json":
            settings = {"metavar": "FILE", "nargs": "?", "const": "-"}
        action = parser.add_argument(*names, help=text, **{**settings, **more})
        words = complete or _COMPLETIONS.get(names[-1])
        if words is not None:  # argcomplete looks for it there
            action.completer = partial(_words, words)  # type: ignore[attr-defined]


def _words(where: str | Callable[[], Iterable[str]], **_: object) -> list[str]:
    """The names that MODULE:NAME has, or that a function gives."""
    if isinstance(where, str):
        module, _colon, name = where.partition(":")
        names = getattr(import_module(module), name)
        return list(names() if callable(names) else names)
    return list(where())


# --- options that do not go together --------------------------------------------------------------


def given(arguments: argparse.Namespace, names: Iterable[str], default: str = "") -> Iterator[tuple[str, str]]:
    """Those of some options, by destination, that were given: as they are written, their values."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value is not False and value not in ("", [], default):
            option = "--from" if name == "prior" else f"--{name.replace('_', '-')}"
            yield option, " ".join(map(str, value)) if isinstance(value, list) else str(value)


def refuse(where: str, arguments: argparse.Namespace, names: Iterable[str], why: str, default: str = "") -> None:
    """CommandError for the first of some options that was given, which must be left out: `why`.

    An option of the value `default` counts as left out.
    """
    for option, value in given(arguments, names, default):
        raise CommandError(f"{where}: {option} must be left out {why}, got {value}")
