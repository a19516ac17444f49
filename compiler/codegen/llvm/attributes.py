"""What is promised of functions and of pointers."""

from __future__ import annotations

from llvmlite import ir as llvm

from vdla.compiler.codegen.llvm.objects import Machine
from vdla.compiler.codegen.llvm.types import Value
from vdla.compiler.target import Target


class Attributes(llvm.FunctionAttributes):  # type: ignore[misc]  # llvmlite has no types
    """The attributes of every function: what the CPU can do, and how wide its vectors should be."""

    def __init__(self, target: Target) -> None:
        words = [f'"target-cpu"="{target.cpu}"', f'"prefer-vector-width"="{8 * target.vector_bytes}"']
        words.append(f'"target-features"="{Machine.of(target).features}"')
        self._known = frozenset([*super()._known, *words])
        super().__init__(["nounwind", *words])


def describe(pointer: Value, align: int) -> None:
    """Say of an argument that it is where a buffer begins, which no other pointer leads to."""
    pointer.attributes.add("noalias")
    pointer.attributes.add("nonnull")
    pointer.attributes.align = align
