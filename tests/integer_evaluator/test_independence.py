# SPDX-License-Identifier: Apache-2.0
"""The evaluator and the quantiser of the tests import nothing of VDLA."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HELPERS = Path(__file__).resolve().parent.parent / "helpers"


@pytest.mark.parametrize("package", ["integer_evaluator", "quantiser"])
def test_only_numpy_onnx_and_its_own_modules_are_imported(package: str) -> None:
    names = set()
    for path in (HELPERS / package).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(str(node.module))
    own = {name for name in names if name.startswith("helpers.")}
    assert {name.split(".")[1] for name in own} == {package}
    libraries = {name.split(".")[0] for name in names - own}
    assert libraries - {"__future__", "collections", "dataclasses", "fractions", "itertools", "math", "typing"} <= {
        "numpy",
        "onnx",
        "onnxruntime",
    }
