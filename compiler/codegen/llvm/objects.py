"""From an LLVM module to an object file, for any target: the one path, whether it is shipped or loaded here.

Objects are kept in the user's cache by a hash of the module's text, the target and LLVM's version, which is all that
they are made from. A damaged one is built again, and no cache at all costs time only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from llvmlite import binding

from vdla.compiler.codegen.llvm.pool import PARALLEL, pool_text
from vdla.compiler.target import Target
from vdla.support.cache import CacheError, user_cache
from vdla.support.errors import Error

OPTIMISATION = 3
STRAIGHT_LINES = False
"""Whether LLVM puts scalar statements side by side into vectors. What LLVM 22 makes of `uitofp(sext x)` and of
conditions is wrong, and the schedule says which lanes there are; see test_llvm_faults.py."""
DIGEST_BYTES = 32
_LOCK = Lock()  # LLVM's default context is one for the process


class CodegenError(Error, RuntimeError):
    """A lowered function that has no code, or a module that LLVM refuses: a defect of what came before."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A target as LLVM wants to hear it."""

    triple: str
    cpu: str
    features: str

    @staticmethod
    def of(target: Target) -> Machine:
        """The machine of a target; features in a fixed order.

        An x86-64 has 64 bits even where LLVM does not know the name of the CPU: else LLVM would end the process.
        """
        has = target.features | ({"64bit"} if target.architecture == "x86_64" else set())
        features = [f"+{name}" for name in sorted(has)] + [f"-{name}" for name in sorted(target.missing)]
        return Machine(target.triple, target.cpu, ",".join(features))


def object_code(text: str, target: Target, *, cached: bool = True) -> bytes:
    """The object file of a module in LLVM's assembly language, with the thread pool if it has parallel loops.

    Raises:
        CodegenError: the module is not well-formed.
    """
    machine = Machine.of(target)
    path = _path(text, machine) if cached else None
    found = None if path is None else _read(path)
    if found is not None:
        return found
    with _LOCK:
        built: bytes = _machine(machine).emit_object(_optimised(text, machine))
    if path is not None:
        _write(path, built)
    return built


def assembly(text: str, target: Target) -> str:
    """The assembly of what `object_code` gives."""
    machine = Machine.of(target)
    with _LOCK:
        return str(_machine(machine).emit_assembly(_optimised(text, machine)))


def optimised(text: str, target: Target) -> str:
    """The module as LLVM's passes leave it."""
    with _LOCK:
        return str(_optimised(text, Machine.of(target)))


# --- LLVM ------------------------------------------------------------------------------------------------------------


@cache
def _machine(machine: Machine) -> Any:  # noqa: ANN401  llvmlite has no types
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=OPTIMISATION, reloc="pic", codemodel="default"
    )


def _optimised(text: str, machine: Machine) -> Any:  # noqa: ANN401  llvmlite has no types
    compiler = _machine(machine)
    module = _parsed(text)
    if module_is_parallel(text):
        module.link_in(_parsed(pool_text(machine.triple)))
    module.triple, module.data_layout = machine.triple, str(compiler.target_data)
    options = binding.create_pipeline_tuning_options(OPTIMISATION)
    options.loop_vectorization, options.slp_vectorization = True, STRAIGHT_LINES
    builder = binding.create_pass_builder(compiler, options)
    builder.getModulePassManager().run(module, builder)
    return module


def _parsed(text: str) -> Any:  # noqa: ANN401  llvmlite has no types
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"native: module must be well-formed, got {error}") from None
    return module


def module_is_parallel(text: str) -> bool:
    """Whether a module calls the thread pool."""
    return f"@{PARALLEL}(" in text or f'@"{PARALLEL}"(' in text


# --- the cache -------------------------------------------------------------------------------------------------------


def _path(text: str, machine: Machine) -> Path | None:
    """Where the object is kept, if there is a place."""
    pool = pool_text(machine.triple) if module_is_parallel(text) else ""
    versions = f"{binding.llvm_version_info} {OPTIMISATION} {STRAIGHT_LINES}"
    everything = "\0".join((text, pool, machine.triple, machine.cpu, machine.features, versions))
    try:
        return user_cache("native") / f"{hashlib.sha256(everything.encode()).hexdigest()}.o"
    except CacheError:
        return None


def _read(path: Path) -> bytes | None:
    """The object, if it is there and whole: it is kept with its own hash in front."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, built = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    return built if hashlib.sha256(built).digest() == digest else None


def _write(path: Path, built: bytes) -> None:
    """Keep an object, for whoever can; nobody needs it."""
    from vdla.support.atomic import write_bytes

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, hashlib.sha256(built).digest() + built)
    except OSError:
        pass
