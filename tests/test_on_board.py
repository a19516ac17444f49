"""On-board modules need only NumPy and the standard library.

A board has no Numba, llvmlite, ml_dtypes or onnx, so the modules listed below must not import them,
directly or through other modules of VDLA. Imports inside functions of listed modules count;
imports for type checking do not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Packages with all their modules, and single modules.
ON_BOARD = (
    "vdla",
    "vdla.support",
    "vdla.hardware",
    "vdla.hardware.asm",
    "vdla.hardware.generate.registers",
    "vdla.hardware.isa",
    "vdla.hardware.program",
    "vdla.simulator.stats",
    "vdla.simulator.support.errors",
    "vdla.simulator.verify",
    "vdla.compiler.abi",
    "vdla.runtime.run",
    "vdla.runtime.artifact",
    "vdla.runtime.devices",
    "vdla.runtime.executor",
    "vdla.runtime.native.library",
    "vdla.runtime.numpy_operators",
    "vdla.boards",
)
# Modules of those packages that run on a workstation only.
ELSEWHERE = {
    "vdla.__main__": "the command line",
    "vdla.cli": "the command line",
    "vdla.devices": "names parts of the simulator too, which load at their first use",
    "vdla.intrinsics": "the compiler",
    "vdla.native": "names the compiler of object files too, which loads at its first use",
    "vdla.onnx_backend": "the compiler",
    "vdla.operators": "the compiler",
    "vdla.te": "the compiler",
    "vdla.templates": "the compiler",
    "vdla.runtime.devices.rtl": "builds the RTL with Verilator and a C++ compiler",
    "vdla.runtime.devices.rtl_build": "builds the RTL with Verilator and a C++ compiler",
    "vdla.runtime.devices.rtl_library": "loads the built RTL",
    "vdla.runtime.devices.sim": "runs the simulator, which Numba compiles",
}
LIBRARIES = {"numpy", *sys.stdlib_module_names}
# Imported inside functions, for element types that NumPy lacks; without it they are refused.
OPTIONAL = {"ml_dtypes"}


@cache
def path_of(module: str) -> Path | None:
    """The file of a module or package of VDLA, or None."""
    path = ROOT / "vdla" / Path(*module.split(".")[1:])
    files = (path / "__init__.py", path.with_suffix(".py")) if module != "vdla" else (path / "__init__.py",)
    return next((file for file in files if file.is_file()), None)


def listed() -> list[str]:
    found = []
    for name in ON_BOARD:
        path = path_of(name)
        assert path is not None, name
        found.append(name)
        if path.name == "__init__.py":
            found += [f"{name}.{module.stem}" for module in sorted(path.parent.glob("*.py")) if module != path]
    return [name for name in found if name not in ELSEWHERE]


LISTED = listed()


def imports(source: str, inside_functions: bool = True) -> Iterator[str]:
    """The dotted names that statements import; `from a import b` gives a.b."""
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not inside_functions:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        todo += ast.iter_child_nodes(node)


@cache
def imports_of(path: Path, inside_functions: bool) -> tuple[str, ...]:
    """The imports of a file, which most modules reach."""
    return tuple(imports(path.read_text(encoding="utf-8"), inside_functions))


def modules_of(name: str) -> Iterator[str]:
    """The modules of VDLA that importing a dotted name executes, packages included."""
    parts = name.split(".")
    names = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return (module for module in names if path_of(module) is not None)


def violations(first: str) -> Iterator[str]:
    """Imports of other libraries by a module, directly or through modules of VDLA."""
    importers, todo = {first: ""}, [first]
    while todo:
        module = todo.pop()
        path = path_of(module)
        assert path is not None
        at_import = {name.partition(".")[0] for name in imports_of(path, False)}
        for name in imports_of(path, module == first or module in LISTED):
            root = name.partition(".")[0]
            if root not in LIBRARIES | {"vdla"} | (OPTIONAL - at_import):
                yield f"{chain(module, importers)} imports {root}"
            for ours in modules_of(name) if root == "vdla" else ():
                if ours in ELSEWHERE:
                    yield f"{chain(module, importers)} imports {ours}: {ELSEWHERE[ours]}"
                elif ours not in importers:
                    importers[ours] = module
                    todo.append(ours)


def chain(module: str, importers: dict[str, str]) -> str:
    return chain(importers[module], importers) + " -> " + module if importers[module] else module


@pytest.mark.parametrize("module", LISTED)
def test_board_modules_need_only_numpy_and_the_standard_library(module: str) -> None:
    assert list(violations(module)) == []


def test_imports_inside_functions_count_and_those_for_types_do_not() -> None:
    assert list(imports("def f():\n    import numba\n")) == ["numba"]
    assert list(imports("def f():\n    import numba\nimport os\n", inside_functions=False)) == ["os"]
    assert list(imports("try:\n    import pynq\nexcept ImportError:\n    pynq = None\n")) == ["pynq"]
    assert list(imports("if TYPE_CHECKING:\n    import pynq\nelse:\n    import numpy\n")) == ["numpy"]


def test_imports_are_followed_transitively() -> None:
    found = list(violations("vdla.simulator.timing"))
    assert any(text.endswith("-> vdla.simulator.support.jit imports numba") for text in found)
    assert list(modules_of("vdla.hardware.program.Program")) == ["vdla", "vdla.hardware", "vdla.hardware.program"]
