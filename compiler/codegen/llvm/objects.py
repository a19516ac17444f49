# SPDX-License-Identifier: Apache-2.0
"""From an LLVM module to an object file for any target, be it shipped or loaded here.

Objects are cached per user by a hash of all their inputs: the module's text, the pool, the target
and LLVM's version. A damaged entry is rebuilt; without a cache folder, compilation takes longer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from llvmlite import binding

from vdla.compiler.target import GPU_ARCHITECTURE, Target, architecture_of
from vdla.support.atomic import write_bytes
from vdla.support.cache import CacheError, user_cache
from vdla.support.errors import Error

_OPTIMISATION_LEVEL = 3
_SLP_VECTORIZATION = False
"""Off: LLVM 22 miscompiles `uitofp(sext x)` and conditions (see test_llvm_miscompiles.py), and the
schedule already says what is vectorized."""
_DIGEST_BYTES = 32
_LOCK = Lock()  # LLVM's default context is shared by the process


class CodegenError(Error, RuntimeError):
    """A lowered function that cannot be emitted, or a module that LLVM rejects."""


@dataclass(frozen=True, slots=True)
class LlvmTarget:
    """A target in LLVM's terms."""

    triple: str
    cpu: str
    features: str

    @staticmethod
    def of(target: Target) -> LlvmTarget:
        """Describes a target; features are sorted.

        `64bit` is explicit on x86-64: without it, LLVM ends the process if the CPU's name is
        unknown to it.
        """
        has = target.features | ({"64bit"} if target.architecture == "x86_64" else set())
        features = [f"+{name}" for name in sorted(has)] + [f"-{name}" for name in sorted(target.missing)]
        return LlvmTarget(target.triple, target.cpu, ",".join(features))


def object_code(text: str, target: Target, *, cached: bool = True) -> bytes:
    """The object file of a module in LLVM assembly; includes the thread pool if it is used.

    Raises:
        CodegenError: the module is not well-formed.
    """
    llvm_target = LlvmTarget.of(target)
    path = _path(text, llvm_target) if cached else None
    result = None if path is None else _read(path)
    if result is not None:
        return result
    with _LOCK:
        built: bytes = _target_machine(llvm_target).emit_object(_optimise(text, llvm_target))
    if path is not None:
        _write(path, built)
    return built


def pool_object(target: Target) -> bytes:
    """The object file of the thread pool alone."""
    return object_code(pool_text(target.triple), target)


def chain_object(target: Target) -> bytes:
    """The object file of `vdla_call_chain`, which calls kernels in a row."""
    return object_code(_source("call_chain.ll"), target)


def assembly(text: str, target: Target) -> str:
    """The assembly of the object that `object_code` gives."""
    llvm_target = LlvmTarget.of(target)
    with _LOCK:
        return str(_target_machine(llvm_target).emit_assembly(_optimise(text, llvm_target)))


def optimised_llvm(text: str, target: Target) -> str:
    """The module after LLVM's passes."""
    with _LOCK:
        return str(_optimise(text, LlvmTarget.of(target)))


# --- LLVM -----------------------------------------------------------------------------------------


@cache
def _target_machine(description: LlvmTarget) -> Any:  # noqa: ANN401  llvmlite is untyped
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(description.triple)
    return target.create_target_machine(
        cpu=description.cpu, features=description.features, opt=_OPTIMISATION_LEVEL, reloc="pic", codemodel="default"
    )


def _optimise(text: str, target: LlvmTarget) -> Any:  # noqa: ANN401  llvmlite is untyped
    machine = _target_machine(target)
    module = _parse(text)
    if uses_thread_pool(text):
        module.link_in(_parse(pool_text(target.triple)))
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    options = binding.create_pipeline_tuning_options(_OPTIMISATION_LEVEL)
    options.loop_vectorization = options.loop_interleaving = architecture_of(target.triple) != GPU_ARCHITECTURE
    options.slp_vectorization = _SLP_VECTORIZATION
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def _parse(text: str) -> Any:  # noqa: ANN401  llvmlite is untyped
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"native: module must be well-formed, got {error}") from None
    return module


def uses_thread_pool(text: str) -> bool:
    """Whether a module calls the thread pool, which its object then includes."""
    return f"@{PARALLEL_SYMBOL}(" in text or f'@"{PARALLEL_SYMBOL}"(' in text


# --- the cache ------------------------------------------------------------------------------------


def _path(text: str, target: LlvmTarget) -> Path | None:
    """The file of an object in the cache; None without a cache folder."""
    pool = pool_text(target.triple) if uses_thread_pool(text) else ""
    versions = f"{binding.llvm_version_info} {_OPTIMISATION_LEVEL} {_SLP_VECTORIZATION}"
    inputs = "\0".join((text, pool, target.triple, target.cpu, target.features, versions))
    try:
        return user_cache("native") / f"{hashlib.sha256(inputs.encode()).hexdigest()}.o"
    except CacheError:
        return None


def _read(path: Path) -> bytes | None:
    """The cached object, or None if it is missing or damaged; its hash precedes it in the file."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, built = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return built if hashlib.sha256(built).digest() == digest else None


def _write(path: Path, built: bytes) -> None:
    """Caches the object; best effort."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, hashlib.sha256(built).digest() + built)
    except OSError:
        pass


# --- the thread pool ------------------------------------------------------------------------------
# `pool.ll` after a prologue for the target. Only objects with a parallel loop contain it. Its
# symbols are weak, so a program has one pool.

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
        f"define internal void @pause() alwaysinline {{\n  call void @{pause}\n  ret void\n}}\n{_source('pool.ll')}"
    )


@cache
def _source(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
