# SPDX-License-Identifier: Apache-2.0
"""PTX to machine code by `ptxas`, the assembler of the CUDA toolkit, which needs no GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from bisect import bisect
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from vdla.compiler.codegen.ptx.architectures import PtxError
from vdla.compiler.codegen.ptx.compile import PtxSource

_INSTALL = 'install it with pip install "vdla[cuda]"'
_TIMEOUT_S = 300
_ENTRY = re.compile(r"^\.visible \.entry (\w+)\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PtxAssembly:
    """The machine code of a source, and what each kernel takes, in the order of its launches."""

    cubin: bytes
    kernels: tuple[KernelResources, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.kernels))


def assemble_ptx(source: PtxSource) -> PtxAssembly:
    """Assemble a source for its architecture.

    Raises:
        PtxError: `ptxas` is not installed, or refuses the text.
    """
    program = find_ptxas()
    if program is None:
        raise PtxError(f"ptxas: the program must be installed, got none; {_INSTALL}")
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        text.write_text(source.text, encoding="ascii")
        command = [str(program), f"-arch={source.arch}", "-v", str(text), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise PtxError(_refusal(source, done.stderr))
        resources = {kernel.kernel: kernel for kernel in kernel_resources(done.stdout + done.stderr)}
        kernels = (resources[launch.kernel] for launch in source.launches)
        asked = {launch.kernel: launch.shared_bytes for launch in source.launches}
        whole = (replace(k, shared_bytes=k.shared_bytes + asked[k.kernel]) for k in kernels)
        return PtxAssembly(cubin.read_bytes(), tuple(whole))


def find_ptxas() -> Path | None:
    """The program: that of the wheel of the CUDA compiler, else one on the PATH; None without."""
    package = find_spec("nvidia")
    for folder in () if package is None else package.submodule_search_locations or ():
        programs = sorted(Path(folder).glob("*/bin/ptxas"))  # the folder is named by the version of CUDA
        if programs:
            return programs[-1]
    path = shutil.which("ptxas")
    return None if path is None else Path(path)


def _refusal(source: PtxSource, log: str) -> str:
    """The first error with its kernel and its line of the text."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    first = next((line for line in lines if "error" in line or "fatal" in line), lines[0] if lines else "no output")
    match = re.search(r"line (\d+); (.*)", first)
    if match is None:
        return f"{source.signature.name}: ptxas must assemble it, got {first}"
    number, reason = int(match[1]), " ".join(match[2].split())
    where = f"{_kernel_at(source, number)}: ptxas must assemble it"
    return f"{where}, got {reason!r} in line {number}: {_line(source, number)}"


def _kernel_at(source: PtxSource, number: int) -> str:
    """The kernel that a line belongs to."""
    entries = [(source.text.count("\n", 0, entry.start()) + 1, entry[1]) for entry in _ENTRY.finditer(source.text)]
    index = bisect([start for start, _ in entries], number) - 1
    return entries[index][1] if index >= 0 else source.signature.name


def _line(source: PtxSource, number: int) -> str:
    lines = source.text.splitlines()
    return " ".join(lines[number - 1].split()) if 0 < number <= len(lines) else ""


# --- what ptxas prints ----------------------------------------------------------------------------

_KERNEL = re.compile(r"Compiling entry function '(\S+)' for")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What a kernel takes: the registers of a thread, the shared memory of a block in bytes.

    `stack` is the local memory of a thread in bytes; `spill_stores` and `spill_loads` are the bytes
    that it moves there and back because registers do not suffice, each counted once in the code.
    """

    kernel: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared_bytes: int

    @property
    def spills(self) -> int:
        """The bytes of all spills."""
        return self.spill_stores + self.spill_loads

    def __str__(self) -> str:
        sizes = f"{self.spill_stores} and {self.spill_loads} bytes spilled and reloaded, {self.stack} of stack"
        return f"{self.kernel}: {self.registers} registers, {sizes}, {self.shared_bytes} shared"


def kernel_resources(log: str) -> tuple[KernelResources, ...]:
    """The kernels in the output of `ptxas -v`, in its order."""
    result = []
    parts = _KERNEL.split(log)[1:]
    for kernel, text in zip(parts[::2], parts[1::2], strict=True):
        frame, used, shared = _FRAME.search(text), _USED.search(text), _SHARED.search(text)
        if frame is None or used is None:
            continue
        stack, stores, loads = map(int, frame.groups())
        size = int(shared[1]) if shared else 0
        result.append(KernelResources(kernel, int(used[1]), stores, loads, stack, size))
    return tuple(result)
