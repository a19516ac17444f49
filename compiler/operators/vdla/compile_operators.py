# SPDX-License-Identifier: Apache-2.0
"""Programs of many operators, compiled once for equal calls, in parallel, with a cache by content.

    compile_operators([TemplateCall(conv2d, config, {"height": 14, ...}), ...])

The name of a cached program is a hash of the compiler's sources, the machine and the options, so an
entry is never stale. A damaged entry is compiled again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from vdla.compiler.operators.vdla.operator import Operator, TemplateError
from vdla.hardware.config import Config
from vdla.hardware.program import Program, ProgramError, load
from vdla.support.cache import CacheError, user_cache
from vdla.support.parallel import parallel_map

_SOURCES = ("compiler", "hardware", "support")


@dataclass(frozen=True, slots=True)
class TemplateCall:
    """A template, the machine, and the options of the call."""

    template: Callable[..., Operator]
    config: Config
    options: Mapping[str, Any] = field(default_factory=dict)

    def operator(self) -> Operator:
        """The operator that the template makes."""
        return self.template(self.config, **self.options)


def compile_operators(
    calls: Sequence[TemplateCall], *, cached: bool = True, workers: int | None = None
) -> list[Program]:
    """The programs of the operators, in order, independent of `cached` and `workers`.

    `cached` reuses programs of the user's cache. `workers` is the number of processes, by default
    one a processor.

    Raises:
        TemplateError: a call is not a TemplateCall, or its options are wrong. Errors of compilation
            are those of the first failing call.
    """
    for call in calls:
        if not isinstance(call, TemplateCall):
            raise TemplateError(f"compile_operators: calls must be TemplateCalls, got {call!r}")
    names = [_name(call) for call in calls]
    known = {name: program for name in dict.fromkeys(names) if cached and (program := _read(name)) is not None}
    missing = {name: call for name, call in zip(names, calls, strict=True) if name not in known}
    for name, content in zip(missing, parallel_map(_compiled, list(missing.values()), workers), strict=True):
        known[name] = Program.from_bytes(content, name)
        if cached:
            _write(name, known[name])
    return [known[name] for name in names]


def _compiled(call: TemplateCall) -> bytes:
    return call.operator().program.to_bytes()


# --- the cache -----------------------------------------------------------------------------------


def _name(call: TemplateCall) -> str:
    """A hash of everything that determines the program."""
    template = f"{call.template.__module__}.{call.template.__qualname__}"
    machine = json.dumps(call.config.to_dict(), sort_keys=True)
    options = repr(sorted(call.options.items()))
    return hashlib.sha256("\n".join([_compiler(), template, machine, options]).encode()).hexdigest()


@cache
def _compiler() -> str:
    """A hash of the sources of the compiler."""
    digest, package = hashlib.sha256(), Path(__file__).parents[3]
    for path in sorted(path for layer in _SOURCES for path in (package / layer).resolve().rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _path(name: str) -> Path:
    return user_cache("programs") / f"{name}.vdla"


def _read(name: str) -> Program | None:
    try:
        return load(_path(name))
    except (OSError, CacheError, ProgramError):
        return None


def _write(name: str, program: Program) -> None:
    try:
        path = _path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        program.save(path)
    except (OSError, CacheError):
        return
