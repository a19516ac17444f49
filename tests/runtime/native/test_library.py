# SPDX-License-Identifier: Apache-2.0
"""Kernels in shared libraries: called without LLVM, with the same checks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import native_modules
from helpers.native_modules import STATIC, SYMBOLIC, expected
from helpers.native_programs import run

from vdla.compiler.codegen.llvm import compile_module
from vdla.compiler.target import Target
from vdla.runtime.native import NativeError, NativeLibrary

F32 = np.float32
ON_BOARD = """
import sys

ABSENT = ("llvmlite", "numba", "ml_dtypes", "onnx", "xgboost", "rich", "cocotb")
COMPILER = ("ir", "te", "arith", "interpret", "analysis", "schedule", "tensorize", "lowering", "codegen", "operators")


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"{name} does not exist on a board")


sys.meta_path.insert(0, Absent())
import numpy as np
from vdla.runtime.native import NativeLibrary

library = NativeLibrary(sys.argv[1])
a = np.ones((6, 4), np.float32)
print(library.kernel("axpy")(a, a).sum())
library.set_threads(2)
print(library.kernel("grow").bind(a, a)()[:6].sum())
print([name for name in sys.modules if name.startswith(tuple(f"vdla.compiler.{room}" for room in COMPILER))])
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of two kernels, one of them parallel."""
    folder = tmp_path_factory.mktemp("library")
    host = Target.named("host")
    for signature, parallel in ((STATIC, False), (SYMBOLIC, True)):
        built = compile_module(native_modules.module(signature, parallel), signature, host)
        (folder / f"{signature.symbol}.o").write_bytes(built.object)
    objects = [str(folder / "axpy.o"), str(folder / "grow.o")]
    run(["gcc", "-shared", "-Wl,-z,defs", *objects, "-o", str(folder / "libkernels.so"), "-lm", "-lpthread"])
    return folder / "libkernels.so"


def test_library_kernels_are_called_like_built_ones(path: Path) -> None:
    library = NativeLibrary(path)
    assert library.signature("grow") == SYMBOLIC
    random = np.random.default_rng(0)
    a, b = random.random((6, 4), F32), random.random((6, 4), F32)
    np.testing.assert_array_equal(library.kernel("axpy")(a, b), expected(a, b))
    np.testing.assert_array_equal(library.kernel("grow")(a, b)[:6], expected(a, b))
    with pytest.raises(NativeError, match=r"^axpy: b must have the dtype float32, got float64 \(b\.astype"):
        library.kernel("axpy")(a, b.astype(np.float64))
    with pytest.raises(NativeError, match=r"^axpy: c must not overlap another argument, got memory of a$"):
        library.kernel("axpy")(a, b, out=a)


def test_the_threads_of_a_library_are_limited(path: Path) -> None:
    library = NativeLibrary(path)
    library.set_threads(3)
    assert library.threads == 3
    a = np.ones((500, 4), F32)
    np.testing.assert_array_equal(library.kernel("grow")(a, a)[:500], expected(a, a))
    message = f"{path}: count of threads must be an integer from 0 to 256, got -1"
    with pytest.raises(NativeError, match=f"^{re.escape(message)}$"):
        library.set_threads(-1)


def test_a_board_needs_numpy_alone(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", ON_BOARD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.stdout == "72.0\n72.0\n[]\n", done.stderr


def test_missing_kernels_libraries_and_pools_are_named(path: Path, tmp_path: Path) -> None:
    with pytest.raises(NativeError, match=f"^{re.escape(str(path))}: kernel must be one of the library's, got conv$"):
        NativeLibrary(path).kernel("conv")
    with pytest.raises(NativeError, match=r"nowhere\.so: cannot load the library: "):
        NativeLibrary(tmp_path / "nowhere.so")
    (tmp_path / "empty.c").write_text("int nothing;\n")
    run(["gcc", "-shared", str(tmp_path / "empty.c"), "-o", str(tmp_path / "empty.so")])
    message = f"{tmp_path / 'empty.so'}: library must have a kernel with parallel loops, got none"
    with pytest.raises(NativeError, match=f"^{re.escape(message)}$"):
        _ = NativeLibrary(tmp_path / "empty.so").threads


def test_invalid_paths_are_refused() -> None:
    with pytest.raises(NativeError, match=r"^NativeLibrary: path must be a string or a Path, got NoneType$"):
        NativeLibrary(None)  # type: ignore[arg-type]
    with pytest.raises(NativeError, match=r"^a\x00b: cannot load the library: "):
        NativeLibrary("a\0b")


def test_foreign_libraries_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "others.so"
    text = 'const char far_signature[] = "far"; const char mine_signature[] = "{}"; const char lost_signature[] = '
    text += '"{\\"name\\":\\"lost\\",\\"arguments\\":[],\\"scalars\\":[]}";\n'
    (tmp_path / "others.c").write_text(text)
    run(["gcc", "-shared", str(tmp_path / "others.c"), "-o", str(path)])
    for name in ("far", "mine"):
        hint = "was the kernel compiled by another version?"
        message = f"{path}: {name}_signature must be a signature, got other text ({hint})"
        with pytest.raises(NativeError, match=f"^{re.escape(message)}$"):
            NativeLibrary(path).kernel(name)
    message = f"{path}: library must have the function lost beside its signature, got none"
    with pytest.raises(NativeError, match=f"^{re.escape(message)}$"):
        NativeLibrary(path).kernel("lost")
