"""The face of the operators: functions under their own names, without LLVM."""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from vdla.compiler import operators

HEAVY = ("llvmlite", "numba", "onnx", "onnxruntime", "rich")


def test_names_are_functions_even_if_a_module_has_the_same_name():
    for module in iter_modules(operators.__path__):
        import_module(f"{operators.__name__}.{module.name}")
    assert [name for name in operators.__all__ if isinstance(getattr(operators, name), ModuleType)] == []


def test_every_public_operator_is_exported():
    """A function of tensors that ends in a name, or packs weights, is an operator."""
    found = set()
    for module in iter_modules(operators.__path__):
        code = import_module(f"{operators.__name__}.{module.name}")
        found |= {name for name in vars(code) if name.startswith("pack_") and callable(getattr(code, name))}
    assert found == {name for name in operators.__all__ if name.startswith("pack_")}


def test_importing_the_operators_loads_no_llvm():
    code = f"import sys, vdla.compiler.operators; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
