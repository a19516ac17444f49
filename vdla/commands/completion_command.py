# SPDX-License-Identifier: Apache-2.0
"""`vdla completion`: the script for completion in a shell."""

from __future__ import annotations

import argparse

from vdla.commands import OK

EXAMPLES = """\
  eval "$(vdla completion bash)"      in ~/.bashrc
  eval "$(vdla completion zsh)"       in ~/.zshrc, after compinit
  vdla completion fish > ~/.config/fish/completions/vdla.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["vdla"], shell=arguments.shell).strip())
    return OK
