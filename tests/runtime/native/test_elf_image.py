# SPDX-License-Identifier: Apache-2.0
"""Images of kernels: the bytes that GNU ld gives, and code that runs where it was laid out for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.elf_tools import EmulatedProcess, assemble, linked, skip_without

from vdla import operators, te
from vdla.compiler import ir
from vdla.compiler.abi import Argument, Signature
from vdla.compiler.codegen.llvm import NativeObject, compile_native
from vdla.compiler.interpret import interpret
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import Target
from vdla.runtime.native import NativeError
from vdla.runtime.native.elf_image import MACHINES, ElfLayout, Rights
from vdla.runtime.native.elf_object import ElfObject, ElfRelocation, ElfSection, ElfSymbol
from vdla.verification.fuzz.functions import random_problem

TARGETS = ("host", "cortex-a9", "aarch64")
BASES = {"host": 0x7F1234560000, "cortex-a9": 0x5A000000, "aarch64": 0x5512345000}
PAGE_ENDS = (0xFF8, 0xFFC)
ASSEMBLY = Path(__file__).parent / "assembly"
FUNCTIONS = ("abs", "aligned_alloc", "free", "getenv", "getpid", "memcpy", "memmove", "memset", "strtoll",
             "sched_getaffinity", "pthread_create", "pthread_detach", "pthread_mutex_lock", "pthread_mutex_unlock",
             "pthread_cond_wait", "pthread_cond_broadcast", "sin", "cos", "tan", "exp", "log", "pow", "tanh",
             "erf", "fmod")  # fmt: skip
Process = tuple[str, EmulatedProcess]


def scheduled(made: ir.Function, target: str) -> ir.Function:
    return default_schedule(made, Target.named(target)).fn


def product() -> ir.Function:
    """Parallel loops, heap temporaries, tables of constants."""
    a, b = te.placeholder((150, 33), "float32", "a"), te.placeholder((33, 70), "float32", "b")
    return te.create_function([a, b], [operators.tanh(operators.matmul(a, b), name="y")], "product")


def convolution() -> ir.Function:
    x, w = te.placeholder((1, 9, 14, 14), "float32", "x"), te.placeholder((20, 9, 3, 3), "float32", "w")
    return te.create_function([x, w], [operators.conv2d(x, w)], "convolution")


def library_functions() -> ir.Function:
    """Calls of libm, conversions and divisions that 32-bit Arm has no instructions for."""
    x, n = te.placeholder((40,), "float64", "x"), te.placeholder((40,), "int64", "n")
    y = te.compute((40,), lambda i: te.sin(x[i]) + te.pow(te.abs(x[i]), x[i]), "y")
    m = te.compute((40,), lambda i: n[i] // 7 + te.cast("int64", x[i] * 1e9) % (n[i] + 100), "m")
    f = te.compute((40,), lambda i: te.cast("float64", n[i]), "f")
    return te.create_function([x, n], [y, m, f], "library_functions")


KERNELS = {"product": product, "convolution": convolution, "library functions": library_functions}
SEEDS = range(12)


def known(machine: int) -> str:
    """The types of relocations of a machine, as refusals list them."""
    return ", ".join(f"{number} ({each.name})" for number, each in MACHINES[machine].relocations.items())


def layout_of(content: bytes) -> ElfLayout:
    return ElfLayout.of(ElfObject.parse(content, "k"), "k")


def compiled(name: str, target: str) -> NativeObject:
    return compile_native(scheduled(KERNELS[name](), target), target)


def check_against_ld(folder: Path, target: str, content: bytes, base: int, **symbols: int) -> None:
    """Calls of other libraries go to stubs, so ld is given the stubs' addresses."""
    layout = layout_of(content)
    addresses = dict.fromkeys(layout.externals, 0x1000) | symbols
    image = layout.image(base, addresses)
    names = {layout.elf.symbols[stub.symbol].name: base + place for stub, place in layout.stubs.items()}
    expected = linked(folder, target, content, layout, base, names | symbols)
    start = min(layout.places.values())
    differing = [at for at in range(start, layout.nbytes, 4) if image[at : at + 4] != expected[at : at + 4]]
    if target == "aarch64":
        differing = [at for at in differing if not same_page(base + at, image[at : at + 4], expected[at : at + 4])]
    assert differing == []


def same_page(place: int, adr: bytes, adrp: bytes) -> bool:
    """Whether an adr at the end of a page gives the page that ld's adrp gives (erratum 843419)."""
    ours, theirs = (int.from_bytes(word, "little") for word in (adr, adrp))
    if place & 0xFFF not in PAGE_ENDS or ours | 1 << 31 == ours or ours & 0x1F != theirs & 0x1F:
        return False
    near, far = (sign_extended((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21) for word in (ours, theirs))
    return place + near == (place & ~0xFFF) + (far << 12)


def sign_extended(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


@pytest.mark.sampled
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_are_relocated_as_by_ld(target: str, name: str, tmp_path: Path) -> None:
    skip_without(target)
    content = compiled(name, target).object
    for base in (BASES[target], 0x10000):
        check_against_ld(tmp_path, target, content, base)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
def test_random_kernels_are_relocated_as_by_ld(target: str, seed: int, tmp_path: Path) -> None:
    skip_without(target)
    content = compile_native(scheduled(random_problem(seed).fn, target), target).object
    check_against_ld(tmp_path, target, content, BASES[target])


@pytest.mark.parametrize("target", TARGETS)
def test_rare_relocations_are_as_by_ld(target: str, tmp_path: Path) -> None:
    """All types whose symbols are in the object, and the addresses of data that are not."""
    skip_without(target)
    content = assemble(tmp_path, target, (ASSEMBLY / f"{Target.named(target).architecture}.s").read_text())
    for base in (BASES[target], 0x40_0000):
        check_against_ld(tmp_path, target, content, base, outside_data=0x1234_5678, outside_small=0x1234)


@pytest.fixture(scope="module", params=TARGETS)
def process(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Process:
    target = request.param
    skip_without(target)
    division = ("__aeabi_uldivmod", "__aeabi_ldivmod", "__aeabi_l2d", "__aeabi_l2f", "__aeabi_d2lz", "__aeabi_f2lz",
                "__aeabi_idiv", "__aeabi_uidiv", "__aeabi_idivmod", "__aeabi_uidivmod")  # fmt: skip
    functions = (*FUNCTIONS, *(division if target == "cortex-a9" else ()))
    return target, EmulatedProcess.start(tmp_path_factory.mktemp("process"), target, functions)


def inputs_of(built: NativeObject) -> dict[str, Any]:
    random = np.random.default_rng(0)
    arrays = {a.name: random.standard_normal(a.static or ()) for a in built.signature.inputs}
    return {
        a.name: (arrays[a.name] * (1 if "float" in a.dtype else 1e6)).astype(a.dtype) for a in built.signature.inputs
    }


def check_run(process: Process, fn: ir.Function, inputs: Mapping[str, Any], rough: bool) -> None:
    target, host = process
    made = scheduled(fn, target)
    built = compile_native(made, target, contract=False)
    expected = {name: np.asarray(array) for name, array in interpret(made, inputs).items()}
    found = host.call(layout_of(built.object), BASES[target], built.signature, {**inputs, **expected}, VDLA_THREADS="3")
    for output, want in expected.items():
        if rough and want.dtype.kind == "f":
            scale = np.abs(want[np.isfinite(want)]).max(initial=0)
            np.testing.assert_allclose(found[output], want, rtol=1e-3, atol=1e-3 * scale, err_msg=output)
        else:
            np.testing.assert_array_equal(found[output], want, err_msg=output)


@pytest.mark.sampled
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_run_where_they_are_laid_out_for(process: Process, name: str) -> None:
    fn = KERNELS[name]()
    check_run(process, fn, inputs_of(compiled(name, process[0])), rough=True)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernels_run_where_they_are_laid_out_for(process: Process, seed: int) -> None:
    problem = random_problem(seed)
    check_run(process, problem.fn, problem.arrays, problem.rough)


def test_calls_of_other_libraries_go_through_stubs(process: Process, tmp_path: Path) -> None:
    """From and to both instruction sets of Arm, through tables and pointers too."""
    target, host = process
    source = (ASSEMBLY / f"{Target.named(target).architecture}_calls.s").read_text()
    signature = Signature("entry", (Argument("y", "int32", (9,), output=True),))
    layout = layout_of(assemble(tmp_path, target, source))
    assert layout.externals == ("abs",)
    found = host.call(layout, BASES[target], signature, {"y": np.zeros(9, np.int32)})
    assert found["y"].tolist() == list(range(5, 14))


def test_the_assembly_has_every_type_of_relocation(tmp_path: Path) -> None:
    for target in TARGETS:
        skip_without(target)
        architecture = Target.named(target).architecture
        sources = [(ASSEMBLY / f"{architecture}{part}.s").read_text() for part in ("", "_calls")]
        layouts = [layout_of(assemble(tmp_path, target, source)) for source in sources]
        used = {each.kind for layout in layouts for each in layout.elf.relocations}
        assert used == layouts[0].machine.relocations.keys()


def test_an_adrp_at_the_end_of_a_page_becomes_an_adr(tmp_path: Path) -> None:
    """Erratum 843419 of Cortex-A53."""
    skip_without("aarch64")
    adrps = "\n".join(f"adrp {register}, data" for register in ("x0", "x1", "x30", "x2"))
    source = f".balign 4096\n.space 0xff4\n{adrps}\n.bss\n.space 12345\n.global data\ndata: .word 0\n"
    content = assemble(tmp_path, "aarch64", source)
    check_against_ld(tmp_path, "aarch64", content, BASES["aarch64"])
    image = layout_of(content).image(BASES["aarch64"], {})
    opcodes = [int.from_bytes(image[at : at + 4], "little") & 0x9F00001F for at in range(0xFF4, 0x1004, 4)]
    assert opcodes == [0x90000000, 0x10000001, 0x1000001E, 0x90000002]


# --- refusals -------------------------------------------------------------------------------------


def section_of(index: int, name: str, size: int, content: bytes, *, executable: bool) -> ElfSection:
    return ElfSection(
        index=index,
        name=name,
        size=size,
        alignment=4,
        content=content,
        writable=not executable,
        executable=executable,
    )


def one_relocation(machine: int, kind: int, size: int = 0, **symbol: Any) -> ElfLayout:
    """The layout of an object with one relocation, at the begin of its code, of far data."""
    code = section_of(1, ".text", 16, bytes(16), executable=True)
    data = section_of(2, ".data", size + 4, b"", executable=False)
    fields: dict[str, Any] = {"name": "s", "section": 2, "value": size, "local": False, "function": False} | symbol
    relocation = ElfRelocation(1, 0, kind, 0, 0 if machine != 40 else None)
    return ElfLayout.of(ElfObject(machine, {1: code, 2: data}, (ElfSymbol(**fields),), (relocation,)), "k")


@pytest.mark.parametrize(
    ("machine", "kind", "options", "message"),
    [
        (8, 0, {}, "k: ELF machine must be one of 62 (x86_64), 183 (aarch64), 40 (arm), got 8"),
        (62, 250, {}, f"k: relocation of x86_64 must be one of {known(62)}, got 250"),
        (40, 104, {}, f"k: relocation of arm must be one of {known(40)}, got 104"),
        (183, 560, {}, f"k: relocation of aarch64 must be one of {known(183)}, got 560"),
        (183, 285, {"section": None}, "k: R_AARCH64_LDST32_ABS_LO12_NC must be of a symbol of the object, got s"),
        (62, 2, {"section": 9}, "k: symbol s must lie in a section that is in memory, got section 9"),
        (62, 2, {"size": 1 << 30}, f"k: object must have at most 2**30 bytes in memory, got {(1 << 30) + 8192}"),
        (183, 283, {"size": 1 << 27}, "k: R_AARCH64_CALL26 of s in .text at 0x0: value must be a signed number of "
         f"28 bits, got {(1 << 27) + 4096}"),
        (183, 275, {"value": 1 << 32}, "k: R_AARCH64_ADR_PREL_PG_HI21 of s in .text at 0x0: value must be a signed "
         f"number of 33 bits, got {(1 << 32) + 4096}"),
        (183, 286, {"value": 4}, "k: R_AARCH64_LDST64_ABS_LO12_NC of s in .text at 0x0: value must be a multiple "
         "of 8, got 4"),
        (40, 28, {}, "k: R_ARM_CALL of s in .text at 0x0: call must be unconditional, got 0x00000000"),
        (40, 29, {"size": 1 << 25}, "k: R_ARM_JUMP24 of s in .text at 0x0: value must be a signed number of 26 bits, "
         f"got {(1 << 25) + 4096}"),
        (40, 30, {"size": 1 << 24}, "k: R_ARM_THM_JUMP24 of s in .text at 0x0: value must be a signed number of "
         f"25 bits, got {(1 << 24) + 4096 + 0xC00000}"),  # zeros are a jump by 0xC00000
    ],
)  # fmt: skip
def test_what_cannot_be_laid_out_or_relocated_is_refused(
    machine: int, kind: int, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(NativeError, match=f"^{re.escape(message)}$"):
        one_relocation(machine, kind, **options).image(0x10000, {})


def test_addends_of_64_bit_machines_are_in_the_relocations() -> None:
    layout = one_relocation(62, 2)
    bare = replace(layout.elf, relocations=(replace(layout.elf.relocations[0], addend=None),))
    with pytest.raises(NativeError, match=r"^k: R_X86_64_PC32 must have an addend in its section, got one without$"):
        ElfLayout.of(bare, "k").image(0x10000, {})


def test_a_relocation_lies_in_its_section() -> None:
    layout = one_relocation(62, 1)
    late = replace(layout.elf, relocations=(replace(layout.elf.relocations[0], offset=12),))
    with pytest.raises(NativeError, match=r"^k: R_X86_64_64 must lie in \.text, got offset 12$"):
        ElfLayout.of(late, "k").image(0x10000, {})


def test_segments_are_pages_of_one_kind() -> None:
    layout = one_relocation(183, 283, size=9000)
    rights = [(s.start, s.end, s.rights) for s in layout.segments]
    assert rights == [
        (0, 4096, Rights.READ | Rights.EXECUTE),
        (4096, 4096, Rights.READ),
        (4096, 16384, Rights.READ | Rights.WRITE),
    ]
