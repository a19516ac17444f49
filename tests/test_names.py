# SPDX-License-Identifier: Apache-2.0
"""Names of public classes are unique except for the listed ones, which mean the same; large
dataclasses are built with keywords; identifiers are nouns, not pronouns or participles.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from helpers.source_tree import ROOT, source_files

MOST_POSITIONAL = 3  # arguments

# Shared names, and their common meaning.
SHARED = {
    "Buffer": "memory that instructions address: an array of a loop nest, an on-chip buffer of the machine",
    "LiveRange": "the part of a program in which storage is needed: of heap buffers, of on-chip tiles",
    "Load": "a read of memory: an expression of the IR, the instruction",
    "Store": "a write of memory: a statement of the IR, the instruction",
}


@dataclass(frozen=True)
class Found:
    """All classes, the files of each public one by name, and the calls of many arguments."""

    classes: list[ast.ClassDef] = field(default_factory=list)
    public: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    calls: list[ast.Call] = field(default_factory=list)

    def look_at(self, path: Path, tree: ast.Module) -> None:
        """Adds what a file holds."""
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                self.public[statement.name].add(str(path.relative_to(ROOT)))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self.classes.append(node)
            if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL:
                self.calls.append(node)


@cache
def sources() -> Found:
    """What the package holds."""
    found = Found()
    for file in source_files().values():
        found.look_at(file.path, file.tree)
    return found


def test_names_of_public_classes_are_unique() -> None:
    shared = {name: sorted(files) for name, files in sources().public.items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in SHARED} == {}
    assert sorted(shared) == sorted(SHARED)


def test_every_error_derives_from_vdla_error() -> None:
    errors = {
        node.name: {ast.unparse(base) for base in node.bases}
        for node in sources().classes
        if node.name.endswith("Error")
    }
    assert len(errors) > 20
    assert errors.pop("Error") == {"Exception"}
    assert {name: bases for name, bases in errors.items() if not bases & {"Error", *errors}} == {}


# --- keywords

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
        for node in sources().classes
        if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
        and sum(isinstance(statement, ast.AnnAssign) for statement in node.body) > LARGE
    }


def calls_in_tests(names: set[str]) -> list[ast.Call]:
    """The calls of many arguments in the tests that name one of the classes.

    The scripts of tests/zoo build layers of other libraries, some of the same name.
    """
    found = Found()
    for path in (path for path in (ROOT / "tests").rglob("*.py") if path.parent != ROOT / "tests" / "zoo"):
        text = path.read_text(encoding="utf-8")
        if any(f"{name}(" in text for name in names):
            found.look_at(path, ast.parse(text))
    return found.calls


def test_large_dataclasses_are_built_with_keywords() -> None:
    large = large_dataclasses() - TABLES
    assert len(large) > 10
    calls = [*sources().calls, *calls_in_tests(large)]
    assert [ast.unparse(node)[:80] for node in calls if called(node.func) in large] == []


# --- identifiers

# The folders whose identifiers are checked.
NOUN_ROOMS = (
    "benchmarks",
    "boards",
    "compiler",
    "examples",
    "hardware",
    "runtime",
    "simulator",
    "vdla",
    "verification",
)
# Where words of PAIRED are not allowed either.
STRICT_ROOMS = ("compiler/graph/", "compiler/operators/")
# Public names, and sides without their pair: exact.
EXCEPTIONS = {
    "benchmarks/equality.py": {"each"},
    "benchmarks/evaluate/benchmark.py": {"each"},
    "benchmarks/evaluate/on_rtl.py": {"each"},
    "benchmarks/certify.py": {"found"},
    "benchmarks/map.py": {"found"},
    "benchmarks/tune/convergence.py": {"left"},
    "compiler/layer_programs/mapped.py": {"found"},
    "compiler/map/candidates.py": {"found"},
    "compiler/tune/vdla_forms.py": {"found"},
    "runtime/executor/operator_cycles.py": {"left"},
    "runtime/studies/tuned_layer.py": {"found"},
    "runtime/tune/mapping.py": {"found"},
    "vdla/charts/elements.py": {"left"},
    "vdla/commands/quantise_command.py": {"left"},
    "vdla/commands/run_picture.py": {"left"},
    "verification/generated_tests/plug_in_changes.py": {"left"},
    "verification/programs/cases.py": {"each"},
    "verification/rtl_mutants/defects.py": {"left"},
}
# Allowed: they stand beside the one that they complement.
PAIRED = {"other", "others", "rest"}
NOT_NOUNS = {"each", "found", "freed", "its", "left", "other", "others", "own", "rest", "taken"}
# `left` is a noun of the field where one of these stands beside it: a side, an operand, a margin.
SIDES = {"right", "top"}


def identifiers(node: ast.AST) -> set[str]:
    """The identifiers that a node holds itself."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return {name}
        case ast.keyword(arg=str(name)):
            return {name}
        case _:
            return set()


def words_that_are_no_nouns(tree: ast.Module) -> set[str]:
    """The identifiers of a module that are pronouns or participles."""
    held: set[str] = set()
    for statement in tree.body:
        names = {name.strip("_").lower() for node in ast.walk(statement) for name in identifiers(node)}
        held |= names & (NOT_NOUNS - {"left"} if names & SIDES else NOT_NOUNS)
    return held


def test_identifiers_are_nouns() -> None:
    trees = {file.path.relative_to(ROOT).as_posix(): file.tree for file in source_files().values()}
    checked = {name: tree for name, tree in trees.items() if name.startswith(tuple(f"{room}/" for room in NOUN_ROOMS))}
    assert len(checked) > 100
    words = {
        name: words_that_are_no_nouns(tree) - (set() if name.startswith(STRICT_ROOMS) else PAIRED)
        for name, tree in checked.items()
    }
    assert {name: held for name, held in words.items() if held} == EXCEPTIONS


def test_a_pronoun_is_found() -> None:
    """Assignments, parameters, attributes, keywords, constants and classes count; sides do not."""
    for source in ("found = 1", "def f(own): ...", "x.taken", "f(others=1)", "_OWN = 1", "class _Found: ..."):
        assert words_that_are_no_nouns(ast.parse(source)), source
    assert words_that_are_no_nouns(ast.parse("match x:\n    case [*rest]: ...")) == {"rest"}
    assert words_that_are_no_nouns(ast.parse("left = 1")) == {"left"}
    assert words_that_are_no_nouns(ast.parse("def f(left, right): ...\ntop, left = pads")) == set()
