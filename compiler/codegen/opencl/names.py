# SPDX-License-Identifier: Apache-2.0
"""Identifiers of the IR as identifiers of OpenCL C.

Names stay as they are unless the language, its library or the generated code uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool half uchar
ushort uint ulong true false global local constant private kernel read_only write_only read_write uniform pipe generic
size_t ptrdiff_t intptr_t uintptr_t event_t sampler_t image1d_t image2d_t image3d_t quad complex imaginary
"""
_FUNCTIONS = """
abs ceil barrier cos erf exp fabs floor fma fmax fmin get_global_id get_group_id get_local_id isnan log max
mem_fence min popcount pow rint select sin sqrt tanh trunc
"""
_WORDS = frozenset([*_KEYWORDS.split(), *_FUNCTIONS.split(), "linux", "unix"])
_PATTERN = re.compile(
    r"(bool|char|uchar|short|ushort|int|uint|long|ulong|half|float|double)\d+(x\d+)?|__\w*|cl_\w*|CL\w*|CLK_\w*|M_\w*|"
    r"\w*_(MIN|MAX)|(as|convert)_\w*|v(load|store)\w*|atom\w*|to_\w+|t\d+|INFINITY|NAN|HUGE_VALF?|MAXFLOAT|[A-Z]+_[A-Z_]*"
)
"""Vector types, built-in functions and macros, and `t1`, `t2`, ... of the generated code."""


class CNames:
    """A distinct identifier for every name of a function, none of `helpers`.

    `preferred` has further names and the identifiers that they get where those are free.
    """

    def __init__(self, names: Iterable[str], helpers: Iterable[str], preferred: Mapping[str, str]) -> None:
        self._helpers = frozenset(helpers)
        names = list(dict.fromkeys(names))
        self._chosen = {name: name for name in names if not self._is_reserved(name)}
        self._used = set(self._chosen.values())
        wanted = {**{name: f"{name}_" for name in names if name not in self._chosen}, **preferred}
        for name, choice in wanted.items():
            self._chosen[name] = self.fresh(choice)

    def fresh(self, name: str) -> str:
        """`name`, with underscores appended until it is free, which it is then no longer."""
        while name in self._used:
            name += "_"
        self._used.add(name)
        return name

    def __getitem__(self, name: str) -> str:
        return self._chosen[name]

    def _is_reserved(self, name: str) -> bool:
        return name in _WORDS or name in self._helpers or _PATTERN.fullmatch(name) is not None
