# SPDX-License-Identifier: Apache-2.0
"""CPUs to compile for, as schedules and the code generator see them, and the limits of GPUs.

Only `host` loads LLVM, which detects the CPU of this machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.support.errors import Error
from vdla.support.keywords import checked_keywords
from vdla.support.suggest import did_you_mean


class TargetError(Error, ValueError):
    """An unknown target, or a buffer that the target cannot address."""


@dataclass(frozen=True, slots=True)
class GridLimits:
    """What a GPU can hold: threads in a block, and along each of its axes, bytes of shared memory
    for one.

    Groups of `warp` threads can wait for each other without the rest of the block; 1 if they
    cannot. With `tensor_cores`, warps compute products of tiles (`mma`).
    """

    name: str
    threads: int = 1024
    shared_bytes: int = 48 * 1024
    warp: int = 1
    tensor_cores: bool = False
    threads_along: tuple[int, int, int] | None = None


@checked_keywords(TargetError)
@dataclass(frozen=True, slots=True)
class Target:
    """A CPU. `vector_bytes` and `vector_registers` describe its widest vectors.

    `features` are LLVM's names; `missing` are features that LLVM would infer from the CPU's name
    but that this CPU lacks.
    """

    name: str
    triple: str
    cpu: str
    features: frozenset[str]
    vector_bytes: int
    vector_registers: int
    missing: frozenset[str] = frozenset()

    @staticmethod
    def named(name: str) -> Target:
        """The target of a name: "host", the CPU of this machine, or one of TARGETS."""
        if name == "host":
            return host()
        if not isinstance(name, str) or name not in TARGETS:
            hint = did_you_mean(name, ("host", *TARGETS))
            raise TargetError(f"target: name must be one of host, {', '.join(TARGETS)}, got {name!r}{hint}")
        return TARGETS[name]

    @property
    def architecture(self) -> str:
        """One of ARCHITECTURES, or GPU_ARCHITECTURE."""
        return architecture_of(self.triple)

    def has(self, *features: str) -> bool:
        """Whether the CPU has all of `features`."""
        return self.features.issuperset(features)

    def lanes(self, dtype_bytes: int) -> int:
        """The number of elements of that width in one vector."""
        return self.vector_bytes // dtype_bytes

    def __repr__(self) -> str:
        return f"<Target {self.name}>"


def _fixed(name: str, triple: str, cpu: str, features: str, vector_bytes: int, vector_registers: int) -> Target:
    return Target(
        name=name,
        triple=triple,
        cpu=cpu,
        features=frozenset(features.split()),
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
    )


_AVX2 = "sse2 ssse3 sse4.1 sse4.2 popcnt avx avx2 fma f16c bmi bmi2"
_AVX512 = f"{_AVX2} avx512f avx512dq avx512bw avx512vl avx512vnni"
_NO_MADD_AFTER_LOAD = "fix-cortex-a53-835769"
"""A workaround: on revisions in use, a 64-bit multiply-add right after a load may be wrong."""
TARGETS = {
    target.name: target
    for target in (
        _fixed("x86-64", "x86_64-unknown-linux-gnu", "x86-64", "sse2", 16, 16),
        _fixed("x86-64-avx2", "x86_64-unknown-linux-gnu", "x86-64-v3", _AVX2, 32, 16),
        _fixed("x86-64-avx512", "x86_64-unknown-linux-gnu", "x86-64-v4", _AVX512, 64, 32),
        _fixed("cortex-a9", "armv7a-unknown-linux-gnueabihf", "cortex-a9", "neon vfp3 fp16", 16, 16),
        _fixed("aarch64", "aarch64-unknown-linux-gnu", "generic", "neon", 16, 32),
        _fixed("cortex-a53", "aarch64-unknown-linux-gnu", "cortex-a53", f"neon {_NO_MADD_AFTER_LOAD}", 16, 32),
        _fixed("neoverse-n1", "aarch64-unknown-linux-gnu", "neoverse-n1", "neon dotprod fullfp16", 16, 32),
    )
}
"""By name; cortex-a9 is the core of a Zynq-7000, cortex-a53 that of a Zynq UltraScale+."""

ARCHITECTURES = ("x86_64", "arm", "aarch64")
"""The architectures of CPUs."""
GPU_ARCHITECTURE = "nvptx64"
"""That of the threads of a GPU, to which the code generator for grids compiles."""

PTX_ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
"""NVIDIA's GPUs by their capability: Volta, Turing, Ampere (80 and 86), Ada, Hopper, Blackwell."""


def architecture_of(triple: str) -> str:
    """The architecture of a target triple, one of ARCHITECTURES, or GPU_ARCHITECTURE."""
    first = triple.split("-")[0]
    result = "arm" if first.startswith("arm") and not first.startswith("arm64") else first.replace("arm64", "aarch64")
    if result not in (*ARCHITECTURES, GPU_ARCHITECTURE):
        raise TargetError(f"target: architecture must be one of {', '.join(ARCHITECTURES)}, got {first}")
    return result


def host() -> Target:
    """The CPU of this machine."""
    from llvmlite import binding

    known = binding.get_host_cpu_features()
    features = frozenset(name for name, has in known.items() if has)
    cpu, triple = binding.get_host_cpu_name(), binding.get_process_triple()
    vector_bytes, registers = _vectors(architecture_of(triple), features)
    return Target(
        name="host",
        triple=triple,
        cpu=cpu,
        features=features,
        vector_bytes=vector_bytes,
        vector_registers=registers,
        missing=frozenset(known) - features,
    )


def _vectors(architecture: str, features: frozenset[str]) -> tuple[int, int]:
    """The size of the widest vectors in bytes, and the number of their registers."""
    if architecture == "aarch64":
        return 16, 32
    if "avx512f" in features:
        return 64, 32
    return (32 if "avx2" in features else 16), 16
