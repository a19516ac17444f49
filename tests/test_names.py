"""Names of public classes are unique except for the listed ones, which mean the same; large
dataclasses are built with keywords.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("vdla/commands", "vdla/support", "hardware", "compiler", "simulator", "runtime", "boards", "benchmarks")

# Shared names, and their common meaning.
SHARED = {
    "Buffer": "memory that instructions address: an array of a loop nest, an on-chip buffer of the machine",
    "LiveRange": "the part of a program in which storage is needed: of heap buffers, of on-chip tiles",
    "Load": "a read of memory: an expression of the IR, the instruction",
    "Store": "a write of memory: a statement of the IR, the instruction",
}


def parsed(folders: tuple[str, ...] = FOLDERS) -> Iterator[tuple[Path, ast.Module]]:
    """The modules of folders, one at a time: all at once are many objects to collect."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


@cache
def classes() -> list[ast.ClassDef]:
    """All classes."""
    return [node for _, tree in parsed() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def public_classes() -> dict[str, set[str]]:
    """name: the files that define a public class of that name."""
    found = defaultdict(set)
    for path, tree in parsed():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(str(path.relative_to(ROOT)))
    return found


def test_names_of_public_classes_are_unique() -> None:
    shared = {name: sorted(files) for name, files in public_classes().items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in SHARED} == {}
    assert sorted(shared) == sorted(SHARED)


def test_every_error_derives_from_vdla_error() -> None:
    errors = {
        node.name: {ast.unparse(base) for base in node.bases} for node in classes() if node.name.endswith("Error")
    }
    assert len(errors) > 20
    assert errors.pop("Error") == {"Exception"}
    assert {name: bases for name, bases in errors.items() if not bases & {"Error", *errors}} == {}


# --- keywords

MOST_POSITIONAL = 3
LARGE = 6  # fields
# The instruction set reads as assembly, and the register table as a table.
TABLES = {"Load", "Store", "Gemm", "Vector", "Register"}


def called(function: ast.expr) -> str:
    """The last part of the name of what is called."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def large_dataclasses() -> set[str]:
    """The names of dataclasses that declare more than LARGE fields."""
    return {
        node.name
        for node in classes()
        if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
        and sum(isinstance(statement, ast.AnnAssign) for statement in node.body) > LARGE
    }


def test_large_dataclasses_are_built_with_keywords() -> None:
    large = large_dataclasses() - TABLES
    assert len(large) > 10
    positional = [
        f"{ast.unparse(node)[:80]}"
        for _, tree in parsed((*FOLDERS, "tests"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL and called(node.func) in large
    ]
    assert positional == []
