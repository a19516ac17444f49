# SPDX-License-Identifier: Apache-2.0
"""C programs that call kernels: compiled for a target, run natively or under an emulator."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.compiler.abi import DTYPE_CODES
from vdla.compiler.codegen.llvm import NativeObject
from vdla.compiler.ir import storage_dtype

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
SECONDS = 120


@dataclass(frozen=True)
class Toolchain:
    """The tools that build and run programs of a target."""

    compiler: str
    flags: tuple[str, ...]
    emulator: tuple[str, ...]
    package: str


TOOLCHAINS = {
    "host": Toolchain("gcc", (), (), "gcc"),
    "cortex-a9": Toolchain(
        "arm-linux-gnueabihf-gcc",
        ("-mcpu=cortex-a9", "-mfpu=neon", "-mfloat-abi=hard"),
        ("qemu-arm", "-cpu", "cortex-a9", "-L", "/usr/arm-linux-gnueabihf"),
        "qemu-user gcc-arm-linux-gnueabihf",
    ),
    "aarch64": Toolchain(
        "aarch64-linux-gnu-gcc",
        (),
        ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
        "qemu-user gcc-aarch64-linux-gnu",
    ),
}


def toolchain(target: str) -> Toolchain:
    """The tools for a target; skips the test if they are missing."""
    tools = TOOLCHAINS[target]
    missing = [name for name in (tools.compiler, *tools.emulator[:1]) if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} (apt-get install {tools.package})")
    return tools


def program(folder: Path, target: str, objects: Sequence[NativeObject], source: str, *flags: str) -> list[str]:
    """The command that runs a C program linked with kernels; headers are named after symbols."""
    tools = toolchain(target)
    folder.mkdir(exist_ok=True)
    for built in objects:
        (folder / f"{built.name}.h").write_text(built.header)
        (folder / f"{built.name}.o").write_bytes(built.object)
    (folder / "main.c").write_text(source)
    files = [str(folder / f"{built.name}.o") for built in objects]
    output = str(folder / "main")
    run([tools.compiler, "-std=gnu99", "-O1", *WARNINGS, *tools.flags, *flags, str(folder / "main.c"), *files,
         "-o", output, "-lm", "-lpthread"])  # fmt: skip
    return [*tools.emulator, output]


def run(command: Sequence[str], folder: Path | None = None, **environment: str) -> str:
    """The standard output of a command, which must succeed."""
    everything = {**os.environ, **environment}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder, env=everything
    )
    assert done.returncode == 0, f"{' '.join(command)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def call(
    folder: Path, target: str, built: NativeObject, inputs: Mapping[str, Any], **environment: str
) -> dict[str, Any]:
    """The outputs of a kernel with a static signature, called by a C program."""
    for name, array in inputs.items():
        np.ascontiguousarray(array).tofile(folder / f"{name}.in")
    run(program(folder, target, [built], caller(built)), folder, **environment)
    return {
        argument.name: np.fromfile(folder / f"{argument.name}.out", storage_dtype(argument.dtype)).reshape(
            argument.static
        )
        for argument in built.signature.outputs
    }


def caller(built: NativeObject) -> str:
    """A C program that reads NAME.in for each input, calls the kernel, and writes NAME.out for each
    output.
    """
    arguments = built.signature.arguments
    lines = [f'#include "{built.name}.h"', "#include <stdio.h>", "#include <stdlib.h>"]
    lines += ["static void *space(size_t size) {", "    void *data = malloc(size);"]
    lines += ["    if (data == NULL) exit(3);", "    return data;", "}"]
    lines += ["static void move(const char *name, const char *mode, void *data, size_t size) {"]
    lines += ["    FILE *file = fopen(name, mode);", "    if (file == NULL) exit(4);"]
    lines += ["    size_t moved = *mode == 'r' ? fread(data, 1, size, file) : fwrite(data, 1, size, file);"]
    lines += ["    if (moved != size || fclose(file) != 0) exit(5);", "}", "int main(void) {"]
    for position, argument in enumerate(arguments):
        shape = argument.static
        assert shape is not None
        size = int(np.prod(shape)) * storage_dtype(argument.dtype).itemsize
        lines += [f"    const int64_t shape{position}[] = {{{', '.join(map(str, shape)) or 1}}};"]
        lines += [f"    void *data{position} = space({size});"]
        if not argument.output:
            lines += [f'    move("{argument.name}.in", "rb", data{position}, {size});']
    tensors = [f"{{data{k}, shape{k}, {len(a.shape)}, {DTYPE_CODES[a.dtype]}}}" for k, a in enumerate(arguments)]
    lines += [f"    const vdla_tensor tensors[] = {{{', '.join(tensors)}}};"]
    lines += [f"    int32_t code = {built.name}(tensors, {len(arguments)});"]
    lines += ["    if (code != VDLA_OK) {"]
    lines += ['        printf("%d: %s\\n", (int)vdla_error_argument(code), vdla_error_text(code));']
    lines += ["        return 1;", "    }"]
    for position, argument in enumerate(arguments):
        if argument.output:
            size = int(np.prod(argument.static or ())) * storage_dtype(argument.dtype).itemsize
            lines += [f'    move("{argument.name}.out", "wb", data{position}, {size});']
    return "\n".join([*lines, "    return 0;", "}", ""])
