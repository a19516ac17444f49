"""How much contiguous memory a board has, from /proc/meminfo, and how to raise it."""

from __future__ import annotations

from vdla.runtime.devices.overlay import LoadedOverlay

_KIB = 1024
_MIB = 1 << 20
_ROUND = 64 * _MIB


def memory_report(board: LoadedOverlay, nbytes: int) -> str:
    """What the board says of its contiguous memory, and the kernel argument for `nbytes` more."""
    try:
        meminfo = board.meminfo()
    except Exception:  # not to describe the failure must not hide it
        meminfo = ""
    total, free = _kib(meminfo, "CmaTotal"), _kib(meminfo, "CmaFree")
    if total is None or free is None:
        return "free tensors, or raise the kernel's contiguous memory (cma=SIZE in bootargs, such as cma=256M)"
    wanted = -(-(total * _KIB + nbytes) // _ROUND) * _ROUND // _MIB
    return (
        f"the board has {total} KiB, {free} KiB of it free; "
        f"free tensors, or start the kernel with cma={wanted}M in its bootargs"
    )


def _kib(meminfo: str, field: str) -> int | None:
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name == field and words and words[0].isdecimal():
            return int(words[0])
    return None
