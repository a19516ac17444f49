"""The thread pool of parallel loops, as an LLVM module for a target: pool.ll, and what depends on the machine.

A kernel's object carries the pool only if it has a parallel loop; all copies in one program are one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vdla.compiler.target import architecture_of

PARALLEL = "vdla_parallel"
PUBLIC = (PARALLEL, "vdla_set_threads", "vdla_threads")
"""What is called from outside; the rest is hidden."""

PAUSES = {
    "x86_64": "llvm.x86.sse2.pause()",
    "arm": "llvm.arm.hint(i32 1)",
    "aarch64": "llvm.aarch64.hint(i32 1)",
}
"""What tells a processor that it waits for another, by architecture."""


@cache
def pool_text(triple: str) -> str:
    """The pool in LLVM's assembly language."""
    kind = architecture_of(triple)
    word = "i32" if kind == "arm" else "i64"
    pause = PAUSES[kind]
    declared = pause.replace("i32 1", "i32 immarg")
    return (
        f'target triple = "{triple}"\n%word = type {word}\ndeclare void @{declared}\n'
        f"define internal void @pause() alwaysinline {{\n  call void @{pause}\n  ret void\n}}\n{_source()}"
    )


@cache
def _source() -> str:
    return (Path(__file__).parent / "pool.ll").read_text(encoding="utf-8")
