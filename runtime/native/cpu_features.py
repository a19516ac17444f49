"""The features of this x86-64 CPU that compiled kernels may need.

Machine code runs into an illegal instruction on a CPU without them, so they are compared before
the first kernel is loaded. Boards have one CPU, and kernels for it are told by their architecture.
"""

from __future__ import annotations

from collections.abc import Iterable

from vdla.runtime.native.arguments import NativeError
from vdla.support.processor import cpu_flags

_SAME = """
avx avx2 avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl bmi2 f16c fma gfni movbe
popcnt ssse3 vaes vpclmulqdq
"""
_FLAGS = {name: name for name in _SAME.split()} | {
    "avx512bf16": "avx512_bf16",
    "avx512bitalg": "avx512_bitalg",
    "avx512fp16": "avx512_fp16",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avxvnni": "avx_vnni",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
}
"""LLVM's names of features of instructions, and those of Linux."""


def require_features(where: str, cpu: str, triple: str, features: Iterable[str]) -> None:
    """Refuse kernels for features that this CPU lacks; what the system does not tell is trusted.

    Raises:
        NativeError: with the features that are missing.
    """
    flags = cpu_flags()
    if not triple.startswith("x86_64") or "sse2" not in flags:
        return
    missing = sorted(name for name in features if name in _FLAGS and _FLAGS[name] not in flags)
    if missing:
        lacks = f"compiled for {cpu}; this one has no {', '.join(missing)}"
        raise NativeError(f"{where}: kernels must be for this CPU, got kernels {lacks}")
