# SPDX-License-Identifier: Apache-2.0
"""GNU's assembler and linker, to compare images of the ELF loader with, and an emulated process
that maps and calls them.
"""

from __future__ import annotations

import platform
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.native_programs import WARNINGS, run, toolchain
from vdla.compiler.abi import DTYPE_CODES, Signature
from vdla.compiler.ir import storage_dtype
from vdla.runtime.native.elf_image import ElfLayout

HERE = Path(__file__).parent
PREFIXES = {"host": "", "cortex-a9": "arm-linux-gnueabihf-", "aarch64": "aarch64-linux-gnu-"}

_PROGBITS, _ARM_EXIDX = 1, 0x70000001


def skip_without(target: str) -> None:
    """Skips the test if the tools for a target are missing."""
    toolchain(target)
    if target == "host" and platform.machine() != "x86_64":
        pytest.skip("the host must be an x86-64")
    if shutil.which(f"{PREFIXES[target]}ld") is None:
        pytest.skip(f"needs {PREFIXES[target]}ld")


def assemble(folder: Path, target: str, source: str) -> bytes:
    """The object file of an assembly text."""
    (folder / "source.s").write_text(source)
    run([f"{PREFIXES[target]}as", str(folder / "source.s"), "-o", str(folder / "source.o")])
    return (folder / "source.o").read_bytes()


def linked(
    folder: Path, target: str, content: bytes, layout: ElfLayout, base: int, symbols: Mapping[str, int]
) -> bytes:
    """What GNU ld makes of an object with sections at the places of a layout, from `base` on.

    `symbols` has the addresses of what the object does not define. Zeros stand where no section is.
    """
    sections = layout.elf.sections
    (folder / "object.o").write_bytes(content)
    _keep_equal_constants(folder, target, [one.name for one in sections.values()])
    if target == "cortex-a9":
        (folder / "object.o").write_bytes(_without_unwind_tables((folder / "object.o").read_bytes()))
    lines = [
        f"  {sections[i].name} {base + place:#x} : {{ *({sections[i].name}) }}" for i, place in layout.places.items()
    ]
    (folder / "places.ld").write_text("\n".join(["SECTIONS {", *lines, "  /DISCARD/ : { *(.note.GNU-stack) }", "}"]))
    defined = [f"--defsym={name}={address:#x}" for name, address in symbols.items()]
    run([f"{PREFIXES[target]}ld", "--no-relax", "-T", "places.ld", *defined, "object.o", "-o", "linked"], folder)
    image = bytearray(layout.nbytes)
    for i, place in layout.places.items():
        if sections[i].content:
            name = sections[i].name
            run([f"{PREFIXES[target]}objcopy", "-O", "binary", f"--only-section={name}", "linked", "section"], folder)
            found = (folder / "section").read_bytes()
            image[place : place + len(found)] = found
    return bytes(image)


def _keep_equal_constants(folder: Path, target: str, names: Sequence[str]) -> None:
    """Makes mergeable constants plain data, since ld would keep one of equal ones."""
    plain = [f"--set-section-flags={name}=alloc,load,readonly,data" for name in names if name.startswith(".rodata")]
    run([f"{PREFIXES[target]}objcopy", *plain, "object.o"], folder)


def _without_unwind_tables(content: bytes) -> bytes:
    """The object with unwind tables as plain data, since ld would merge their entries."""
    table, entry, count = (
        struct.unpack_from(form, content, at)[0] for form, at in (("<I", 32), ("<H", 46), ("<H", 48))
    )
    changed = bytearray(content)
    for kind in range(table + 4, table + entry * count, entry):
        if struct.unpack_from("<I", content, kind)[0] == _ARM_EXIDX:
            struct.pack_into("<I", changed, kind, _PROGBITS)
    return bytes(changed)


@dataclass(frozen=True)
class EmulatedProcess:
    """A C program at fixed addresses; `addresses` are those of the C library's functions in it."""

    command: tuple[str, ...]
    folder: Path
    addresses: Mapping[str, int]

    @staticmethod
    def start(folder: Path, target: str, functions: Sequence[str]) -> EmulatedProcess:
        """Builds the program with these functions in it."""
        tools = toolchain(target)
        declared = "".join(f"extern void {name}(void);\n" for name in functions)
        entries = "".join(f'{{"{name}", {name}}}, ' for name in functions)
        table = f"const struct {{const char *name; void (*function)(void);}} functions[] = {{{entries}{{0, 0}}}};\n"
        (folder / "functions.c").write_text(declared + table)
        (folder / "host.c").write_text((HERE / "elf_host.c").read_text())
        run([tools.compiler, "-std=gnu11", "-O1", *WARNINGS, *tools.flags, "-fno-builtin", "-static", "-no-pie",
             "host.c", "functions.c", "-o", "host", "-lm", "-lpthread"], folder)  # fmt: skip
        command = (*tools.emulator, "./host")
        lines = run([*command, "addresses"], folder).split("\n")
        return EmulatedProcess(command, folder, {name: int(at, 16) for name, at in map(str.split, filter(None, lines))})

    def call(
        self, layout: ElfLayout, base: int, signature: Signature, arrays: Mapping[str, Any], **environment: str
    ) -> dict[str, Any]:
        """The outputs of a kernel whose image is mapped at `base`; `arrays` has all arguments."""
        image = layout.image(base, {name: self.addresses[name] for name in layout.externals})
        entry = base + layout.definitions[signature.symbol]
        header = [base, len(image), entry, len(signature.arguments), len(layout.segments)]
        job = [struct.pack("<5q", *header), bytes(image)]
        job += [struct.pack("<3q", s.start, s.end, s.rights) for s in layout.segments]
        for argument in signature.arguments:
            array = np.ascontiguousarray(arrays[argument.name])
            fields = (DTYPE_CODES[argument.dtype], array.nbytes, array.ndim, *array.shape)
            job += [struct.pack(f"<{len(fields)}q", *fields), array.tobytes()]
        (self.folder / "job").write_bytes(b"".join(job))
        run(self.command, self.folder, **environment)
        done, results = (self.folder / "result").read_bytes(), {}
        for argument in signature.arguments:
            array = arrays[argument.name]
            results[argument.name] = np.frombuffer(done[: array.nbytes], storage_dtype(argument.dtype)).reshape(
                array.shape
            )
            done = done[array.nbytes :]
        return {argument.name: results[argument.name] for argument in signature.outputs}
