# SPDX-License-Identifier: Apache-2.0
"""ldmatrix and mma.sync as the PTX manual defines them, for modules for a GPU that run on this CPU.

Each becomes a function of the module that hands its registers to Python, where the lanes meet.
"""

from __future__ import annotations

import ctypes
import re

import ml_dtypes
import numpy as np

_LANES = range(32)
_KINDS = {"f32.f32": np.float16, "bf16": ml_dtypes.bfloat16, "s8": np.int8}
_LDMATRIX = re.compile(r'@"llvm\.nvvm\.ldmatrix\.sync\.aligned\.m8n8\.x(\d)(\.trans)?\.b16\.p3"\(([^)]*)\)')
_MMA = re.compile(r'@"llvm\.nvvm\.mma\.m16n8k\d+\.row\.col\.(f32\.f32|bf16|s8)"\(([^)]*)\)')
CALLBACK = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int32] * 5)


def replaced(text: str, own: str) -> str:
    """A module with calls of functions at its end; `own` are the numbers of the thread."""
    text = _LDMATRIX.sub(lambda m: f'@"ldmatrix_{m[1]}_{int(bool(m[2]))}"({m[3]}, {own})', text)
    return _MMA.sub(lambda m: f'@"mma_{m[1]}"({m[2]}, {own})', text) + _functions()


def _functions() -> str:
    """The functions that hand registers over."""
    parts = ['declare void @"test_ldmatrix"(ptr, ptr, i32, i32, i32, i32, i32)']
    parts.append('declare void @"test_mma"(ptr, ptr, i32, i32, i32, i32, i32)')
    for count in (2, 4):
        for transposed in (0, 1):
            call = f"call void @test_ldmatrix(ptr %a, ptr %o, i32 {count}, i32 {transposed}, i32 %x, i32 %y, i32 %z)"
            head = f'define {_struct("i32", count)} @"ldmatrix_{count}_{transposed}"(ptr %a, i32 %x, i32 %y, i32 %z)'
            parts.append(f"{head} {{\n%o = alloca [{count} x i32]\n{call}\n{_results('i32', count)}}}")
    for number, name in enumerate(_KINDS):
        operand, sums = ("<2 x half>" if name == "f32.f32" else "i32"), ("i32" if name == "s8" else "float")
        kinds = [operand] * 6 + [sums] * 4
        parameters = ", ".join(f"{kind} %p{n}" for n, kind in enumerate(kinds))
        stores = "".join(
            f"%q{n} = getelementptr i32, ptr %a, i32 {n}\nstore {kind} %p{n}, ptr %q{n}, align 4\n"
            for n, kind in enumerate(kinds)
        )
        call = f"call void @test_mma(ptr %a, ptr %o, i32 {number}, i32 0, i32 %x, i32 %y, i32 %z)"
        head = f'define {_struct(sums, 4)} @"mma_{name}"({parameters}, i32 %x, i32 %y, i32 %z)'
        parts.append(f"{head} {{\n%a = alloca [10 x i32]\n%o = alloca [4 x i32]\n{stores}{call}\n{_results(sums, 4)}}}")
    return "\n".join(parts) + "\n"


def _struct(kind: str, count: int) -> str:
    return "{" + ", ".join([kind] * count) + "}"


def _results(kind: str, count: int) -> str:
    """The values at %o as the result of a function."""
    lines, whole = [], "poison"
    for n in range(count):
        lines.append(f"%r{n} = getelementptr i32, ptr %o, i32 {n}\n%v{n} = load {kind}, ptr %r{n}, align 4")
        lines.append(f"%s{n} = insertvalue {_struct(kind, count)} {whole}, {kind} %v{n}, {n}")
        whole = f"%s{n}"
    return "\n".join(lines) + f"\nret {_struct(kind, count)} {whole}\n"


def memory(address: int, count: int, kind: type) -> np.ndarray:
    """Elements at an address."""
    size = count * np.dtype(kind).itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), kind, count)


def matrices(rows: list[int], lane: int, count: int, transposed: int) -> np.ndarray:
    """The registers of a lane after ldmatrix; `rows` are the addresses that the lanes gave."""
    found = []
    for number in range(count):
        matrix = np.array([memory(row, 8, np.uint16) for row in rows[8 * number : 8 * number + 8]])
        matrix = matrix.T if transposed else matrix
        found.append(np.ascontiguousarray(matrix[lane // 4, 2 * (lane % 4) :][:2]).view(np.uint32)[0])
    return np.array(found, np.uint32)


def products(registers: list[np.ndarray], lane: int, form: int) -> np.ndarray:
    """The four sums of a lane after mma.sync, from the ten registers of each lane."""
    kind = list(_KINDS.values())[form]
    sums = np.int32 if kind is np.int8 else np.float32
    width = 4 // np.dtype(kind).itemsize  # neighbours in a register
    terms = 8 * width
    a, b, c = np.zeros((16, terms), sums), np.zeros((terms, 8), sums), np.zeros((16, 8), sums)
    for own in _LANES:
        row, first = own // 4, width * (own % 4)
        values = registers[own][:6].copy().view(kind).reshape(6, width).astype(sums)
        for number in range(4):  # of a: rows, then terms
            start = first + terms // 2 * (number // 2)
            a[row + 8 * (number % 2), start : start + width] = values[number]
        for number in range(2):
            start = first + terms // 2 * number
            b[start : start + width, row] = values[4 + number]
        held = registers[own][6:].copy().view(sums)
        for number in range(4):
            c[row + 8 * (number // 2), 2 * (own % 4) + number % 2] = held[number]
    result = c + a @ b
    row, column = lane // 4, 2 * (lane % 4)
    return result[[row, row, row + 8, row + 8], [column, column + 1] * 2].astype(sums)
