"""Instructions of CPUs, declared in a file as those of machines are: operands in memory, and the
lowering of a step to LLVM.

An instruction without a lowering is a what-if: schedules match it, and its behaviour runs.
"""

from __future__ import annotations

from vdla.compiler.extensions.errors import ExtensionError
from vdla.compiler.extensions.extension import CPU_SCOPES, Extension
from vdla.compiler.extensions.load import Source, declared_for
from vdla.compiler.target import Target, host
from vdla.compiler.tensorize import Intrinsic, IntrinsicError


def cpu_intrinsics(source: Source, target: Target | None = None) -> list[Intrinsic]:
    """The intrinsics of a file, an entry point or a function `declare(target)`, by default for the
    CPU that this runs on.

    ExtensionError, with the line of the declaration, where it contradicts itself.
    """
    unit = declared_for(source, host() if target is None else target)
    return [cpu_intrinsic(extension) for extension in unit.instructions]


def cpu_intrinsic(extension: Extension) -> Intrinsic:
    """The intrinsic of an instruction of a CPU; ExtensionError where it is one of a machine."""
    where = f"{extension.place}: extension {extension.name}"
    if not extension.on_cpu or extension.output is None:
        got = ", ".join(sorted({str(scope) for scope in extension.scopes.values()}))
        raise ExtensionError(f"{where}: scopes must be one of {', '.join(CPU_SCOPES)}, got {got}")
    what_if = (f"the extension {extension.name}",)  # a feature that no CPU has
    try:
        return Intrinsic(
            name=extension.name,
            output=extension.output,
            scopes={name: str(scope) for name, scope in extension.scopes.items()},
            lower=_nothing if extension.lower is None else extension.lower,
            in_place=extension.in_place,
            target="cpu",
            requires=what_if if extension.lower is None else tuple(extension.requires),
        )
    except IntrinsicError as error:
        raise ExtensionError(f"{extension.place}: {error}") from None


def _nothing(emit: object) -> None:
    """The lowering of a what-if, which no CPU runs."""
    raise AssertionError("a what-if requires a feature that no CPU has")
