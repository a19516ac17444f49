"""The thread pool of parallel loops as an LLVM module: `pool.ll` after a prologue for the target.

Only objects with a parallel loop contain it. Its symbols are weak, so a program has one pool.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vdla.compiler.target import architecture_of

PARALLEL_SYMBOL = "vdla_parallel"
POOL_SYMBOLS = (PARALLEL_SYMBOL, "vdla_set_threads", "vdla_threads")
"""The symbols called from outside the pool; all others are hidden."""

PAUSES = {
    "x86_64": "llvm.x86.sse2.pause()",
    "arm": "llvm.arm.hint(i32 1)",
    "aarch64": "llvm.aarch64.hint(i32 1)",
}
"""The spin-wait hint of each architecture."""


@cache
def pool_text(triple: str) -> str:
    """The pool in LLVM's assembly language."""
    architecture = architecture_of(triple)
    word = "i32" if architecture == "arm" else "i64"
    pause = PAUSES[architecture]
    declaration = pause.replace("i32 1", "i32 immarg")
    return (
        f'target triple = "{triple}"\n%word = type {word}\ndeclare void @{declaration}\n'
        f"define internal void @pause() alwaysinline {{\n  call void @{pause}\n  ret void\n}}\n{_source()}"
    )


@cache
def _source() -> str:
    return (Path(__file__).parent / "pool.ll").read_text(encoding="utf-8")
