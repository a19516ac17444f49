# SPDX-License-Identifier: Apache-2.0
"""Names in docstrings exist: files and folders, modules and what they define, members of classes.

A name is a text in backticks with a dot or a slash. Of dotted names, those count that begin with
the package, with a module, or with a public class; others belong to libraries or to examples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pkgutil import resolve_name

import pytest
from helpers.source_tree import LAYERS, ROOT, source_files

NAME = re.compile(r"`([A-Za-z_]\w*(?:[./]\w+)+)(?:\(.*?\))?`")
LIBRARIES = ("llvm", "onnx")  # rooms have these names too
PLACEHOLDER = re.compile(r"\bNAME")  # stands for any name: boards/NAME/board.json


def docstrings(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a file, those of attributes and constants included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


@cache
def paths() -> frozenset[str]:
    """All files and folders of the repository, and all ends of their paths."""
    folders = (path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "build")))
    files = [
        path.relative_to(ROOT) for folder in folders for path in folder.rglob("*") if "__pycache__" not in str(path)
    ]
    return frozenset("/".join(path.parts[start:]) for path in files for start in range(len(path.parts)))


@cache
def definitions() -> dict[str, set[str]]:
    """What each module, by the last part of its name, and each public class defines."""
    known: dict[str, set[str]] = {}
    for name, file in source_files().items():
        package, _, module = name.rpartition(".")
        known.setdefault(module, set()).update(defined(file.tree))
        known.setdefault(package.rpartition(".")[2], set()).add(module)
        for node in file.tree.body:
            if isinstance(node, ast.ClassDef):
                known.setdefault(node.name, set()).update(defined(node), assigned(node))
    return known


@cache
def members() -> set[str]:
    """The members of all public classes: `plan.dtype` names one of a variable."""
    return set().union(*(names for name, names in definitions().items() if name[:1].isupper()))


@cache
def strings() -> set[str]:
    """All texts in the sources: operators of graphs have names such as `vdla.Fused`."""
    nodes = (node for file in source_files().values() for node in ast.walk(file.tree))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def assigned(body: ast.ClassDef) -> set[str]:
    """The attributes that methods of a class read or assign."""
    return {node.attr for node in ast.walk(body) if isinstance(node, ast.Attribute)}


def defined(body: ast.Module | ast.ClassDef) -> set[str]:
    """The names that statements of a module or class define or import."""
    names = set()
    for node in body.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case ast.Assign() | ast.AnnAssign() | ast.If() | ast.Try():
                names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names


def exists(name: str) -> bool:
    """Whether a name of a docstring is a path, or is defined where it says; True for others'."""
    if name in paths() or PLACEHOLDER.search(name):
        return True
    first, *rest = name.split(".")
    if "/" in name or rest[-1] == "py":
        return False
    if rest[-1] == "tcl":
        return True  # written by a command
    if first == "vdla":
        return is_of_package(name) or name in strings()
    known = definitions()
    if first not in known or first in LIBRARIES:
        return True
    return rest[0] in known[first] or (first[0].islower() and rest[0] in members())


def is_of_package(name: str) -> bool:
    """Whether a dotted name is a module of the package, or an attribute of a module or class."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_names_in_docstrings_exist(layer: str) -> None:
    named = [
        (name, str(file.path.relative_to(ROOT)))
        for module, file in source_files().items()
        if module.partition(".")[0] == layer
        for text in docstrings(file.tree)
        for name in NAME.findall(text)
    ]
    assert [(name, place) for name, place in named if not exists(name)] == []


def test_what_moved_is_found() -> None:
    assert exists("compiler/graph/graph.py") and not exists("compiler/graph/old.py")
    assert exists("Config.preset") and not exists("Config.presets")
    assert exists("te.compute") and not exists("te.compute_tensor")
    assert exists("vdla.compiler.ir") and not exists("vdla.compiler.tree")
    assert exists("np.unique") and exists("vdla.Fused")
    assert list(NAME.findall("`numerics.scales(x)` and `a b.c`")) == ["numerics.scales"]
