"""Dependencies point one way, and what runs on a board needs only numpy and the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What each folder may import of ours, beside itself.
ALLOWED = {
    "hardware": set(),
    "simulator": {"hardware"},
    "compiler": {"hardware"},
    "runtime": {"hardware", "compiler", "simulator"},
    "boards": {"hardware", "compiler", "simulator", "runtime"},
    "benchmarks": {"hardware", "compiler", "simulator", "runtime", "boards"},
}

# Imported on a board, where neither numba nor a compiler exists.
ON_BOARD = ("runtime", "boards")
ON_BOARD_LIBRARIES = {"numpy", "vdla", *sys.stdlib_module_names}


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imported(tree: ast.AST) -> list[str]:
    """The dotted names that any import below `tree` asks for; `from a import b` gives a.b."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports must be absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def runs_at_import(tree: ast.Module) -> ast.Module:
    """The statements that importing the module runs: not the bodies of functions, nor those for the type checker."""

    class Strip(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
            return None

        def visit_If(self, node: ast.If) -> ast.AST:
            if "TYPE_CHECKING" in ast.unparse(node.test):
                return ast.Module(node.orelse, [])
            return self.generic_visit(node)

    stripped: ast.Module = Strip().visit(tree)
    return stripped


def folders_of(names: list[str]) -> set[str]:
    """The folders of ours among dotted names."""
    return {parts[1] for parts in (name.split(".") for name in names) if parts[0] == "vdla" and len(parts) > 1}


def violations(folder: str, source: str) -> set[str]:
    return folders_of(imported(ast.parse(source))) & set(ALLOWED) - ALLOWED[folder] - {folder}


def library_violations(source: str) -> set[str]:
    roots = {name.split(".")[0] for name in imported(runs_at_import(ast.parse(source)))}
    return roots - ON_BOARD_LIBRARIES


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_only_what_lies_below_it(folder: str) -> None:
    found = {str(path.relative_to(ROOT)): violations(folder, path.read_text()) for path in sources(folder)}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("folder", ON_BOARD)
def test_what_runs_on_a_board_needs_only_numpy_and_the_standard_library(folder: str) -> None:
    found = {str(path.relative_to(ROOT)): library_violations(path.read_text()) for path in sources(folder)}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_check_sees_a_forbidden_folder_even_inside_a_function() -> None:
    assert violations("compiler", "def f():\n    from vdla.simulator.engine import run\n") == {"simulator"}
    assert violations("compiler", "from vdla import runtime\n") == {"runtime"}
    assert violations("hardware", "import vdla.compiler.te\n") == {"compiler"}
    assert violations("simulator", "from vdla.hardware.isa import Load\n") == set()


def test_the_check_of_libraries_looks_at_module_level_only() -> None:
    assert library_violations("import numba\n") == {"numba"}
    assert library_violations("try:\n    import pynq\nexcept ImportError:\n    pynq = None\n") == {"pynq"}
    assert library_violations("def f():\n    import pynq\n") == set()
    assert library_violations("if TYPE_CHECKING:\n    import pynq\n") == set()
