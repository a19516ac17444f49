# SPDX-License-Identifier: Apache-2.0
"""The records of operators: what is derived from them is written nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from vdla.compiler.graph.accelerator import ACCELERATED
from vdla.compiler.graph.attributes import schema_of
from vdla.compiler.graph.grid import GRID
from vdla.compiler.graph.groups import FUSED
from vdla.compiler.graph.operators import RECORDS, Trait, has_trait

ROOT = Path(__file__).resolve().parents[4]
PRODUCT = ("vdla/commands", "vdla/support", "hardware", "compiler", "simulator", "runtime", "boards")
HOME = ("compiler/graph/operators", "runtime/numpy_operators")
# Of single operators by others: importers, and tables.
REWRITES = ("compiler/graph/onnx", "compiler/graph/passes/tabular.py", "compiler/graph/tflite")
# Patterns of one operator: bounds of quantised results, neutral elements, biases that an Add adds,
# norms of rows around an integer sum, places of elements from keys.
PATTERNS = {
    "compiler/certificates/quantised_nodes.py": {"Clip", "Relu"},
    "compiler/certificates/scaled_weights.py": {"Add", "Mul", "Sub"},
    "compiler/graph/integer/result.py": {"Add", "Clip", "Div", "Mul", "Relu", "Round", "Sub"},
    "compiler/graph/machine/row_results.py": {"BitwiseAnd", "Cast", "Neg"},
    "compiler/graph/passes/batch_norm.py": {"Add", "Div", "Mul", "Sub"},
    "compiler/graph/passes/expansion.py": {"Cast"},
    "compiler/graph/passes/plain_layers.py": {"Max", "Relu"},
    "compiler/graph/passes/resident_caches.py": {"Add", "Cast", "Div", "Mod", "Mul", "Sub"},
    "compiler/graph/passes/row_reductions.py": {"Abs", "Sub", "Add", "Div", "Mul", "Pow", "Sqrt"},
    "compiler/graph/passes/row_functions.py": {"Add", "Div", "Mul", "Sqrt"},
    "compiler/graph/passes/simplify.py": {
        "Cast",
        "CastLike",
        "Clip",
        "Div",
        "Max",
        "Mean",
        "Min",
        "Mul",
        "Relu",
        "Sub",
        "Sum",
    },
    "compiler/graph/quantise/insert.py": {"Add"},
    "compiler/graph/quantise/parts.py": {"Where"},
    "compiler/graph/quantise/plan.py": {"Add"},
    "runtime/generate/quantise_decoder.py": {"Add"},
}
ELEMENTWISE = {
    name
    for name, record in RECORDS.items()
    if record.has(Trait.ELEMENTWISE)
    and not record.has(Trait.CONVERSION | Trait.RESHAPE)
    and not name.startswith("vdla.")
}


def files() -> Iterator[str]:
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix()


def strings(tree: ast.Module) -> Iterator[str]:
    """The strings of a module without its docstrings and lists of exports."""
    exports = {"__all__"}
    for node in tree.body:
        if isinstance(node, ast.Assign) and {getattr(target, "id", "") for target in node.targets} & exports:
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield inner.value


@pytest.mark.parametrize("word", [{"Relu"}, {"HardSwish"}])
def test_a_name_in_a_string_is_seen(word: set[str]) -> None:
    [name] = word
    assert name in set(strings(ast.parse(f'x = {{"{name}": 1}}')))
    assert set(strings(ast.parse(f'__all__ = ["{name}"]'))) == set()


def test_no_other_file_names_an_element_wise_operator() -> None:
    found = {}
    for file in files():
        if file.startswith((*HOME, *REWRITES)):
            continue
        named = set(strings(ast.parse((ROOT / file).read_text(encoding="utf-8")))) & ELEMENTWISE
        if named:
            found[file] = named
    assert found == PATTERNS


def test_no_list_of_words_names_operators() -> None:
    for file in files():
        if file.startswith(HOME):
            continue
        for text in strings(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            assert len(set(text.split()) & ELEMENTWISE) < 3, (file, text)


def test_traits_of_functions() -> None:
    functions = {name for name, record in RECORDS.items() if record.has(Trait.FUNCTION)}
    assert functions <= ELEMENTWISE | {"Identity"}
    assert {"Acos", "Acosh", "Atan", "HardSwish", "Shrink", "SwiGLU"} <= functions
    assert not functions & {"Cast", "Where", "Not", "Equal", "IsNaN"}


def test_an_unknown_operator_has_no_trait() -> None:
    assert not has_trait("example.Unknown", Trait.ELEMENTWISE)


def test_every_operator_of_the_toolkit_declares_its_attributes() -> None:
    names = [name for name in RECORDS if name.startswith("vdla.")]
    assert [name for name in (*names, FUSED, ACCELERATED, GRID) if schema_of(name) is None] == []
