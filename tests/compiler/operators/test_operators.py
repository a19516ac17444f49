# SPDX-License-Identifier: Apache-2.0
"""The exports of the operators: functions under their own names, without LLVM."""

import subprocess
import sys
from importlib import import_module
from inspect import isfunction, signature
from pkgutil import iter_modules
from types import ModuleType

from vdla.compiler import operators

HEAVY = ("llvmlite", "numba", "onnx", "onnxruntime", "rich")


def test_names_are_functions_even_if_a_module_has_the_same_name():
    for module in iter_modules(operators.__path__):
        import_module(f"{operators.__name__}.{module.name}")
    assert [name for name in operators.__all__ if isinstance(getattr(operators, name), ModuleType)] == []


def test_every_operator_is_exported():
    found = set()
    for module in iter_modules(operators.__path__):
        code = import_module(f"{operators.__name__}.{module.name}")
        found |= {name for name, value in vars(code).items() if is_operator(value, code)}
    assert found == {name for name in operators.__all__ if is_operator(getattr(operators, name))}
    assert len(found) > 100


def is_operator(value, module=None):
    """Whether a function takes tensors and an optional name, or packs weights."""
    if not isfunction(value) or value.__name__.startswith("_") or (module and value.__module__ != module.__name__):
        return False
    parameters = list(signature(value).parameters.values())
    named = parameters and parameters[-1].name in ("name", "names") and parameters[-1].default is None
    return bool(named) or value.__name__.startswith("pack_")


def test_importing_the_operators_loads_no_llvm():
    code = f"import sys, vdla.compiler.operators; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
