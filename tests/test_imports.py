"""Dependencies point one way."""

from __future__ import annotations

import ast
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


def folders_of(names: list[str]) -> set[str]:
    """The folders of ours among dotted names."""
    return {parts[1] for parts in (name.split(".") for name in names) if parts[0] == "vdla" and len(parts) > 1}


def violations(folder: str, source: str) -> set[str]:
    return folders_of(imported(ast.parse(source))) & set(ALLOWED) - ALLOWED[folder] - {folder}


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_only_what_lies_below_it(folder: str) -> None:
    found = {str(path.relative_to(ROOT)): violations(folder, path.read_text()) for path in sources(folder)}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_check_sees_a_forbidden_folder_even_inside_a_function() -> None:
    assert violations("compiler", "def f():\n    from vdla.simulator.engine import run\n") == {"simulator"}
    assert violations("compiler", "from vdla import runtime\n") == {"runtime"}
    assert violations("hardware", "import vdla.compiler.te\n") == {"compiler"}
    assert violations("simulator", "from vdla.hardware.isa import Load\n") == set()
