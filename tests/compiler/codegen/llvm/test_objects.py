# SPDX-License-Identifier: Apache-2.0
"""Cached objects equal newly compiled ones, even if the cache is damaged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers import native_modules

from vdla.compiler.codegen.llvm import objects
from vdla.compiler.codegen.llvm.objects import PAUSES, POOL_SYMBOLS, CodegenError, object_code, pool_text
from vdla.compiler.target import TARGETS, Target

HOST = Target.named("host")
TEXT = str(native_modules.module(native_modules.STATIC, parallel=True))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "vdla" / "native"


def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, machine: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(objects, "_optimise", refuse)


def test_an_object_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = object_code(TEXT, HOST)
    no_compiler(monkeypatch)
    assert object_code(TEXT, HOST) == first
    with pytest.raises(AssertionError, match="compiled again"):
        object_code(TEXT, HOST, cached=False)
    assert [path.suffix for path in folder.iterdir()] == [".o"]


def test_each_target_and_module_has_its_own_cache_entry(folder: Path) -> None:
    everywhere = [object_code(TEXT, target) for target in (HOST, *TARGETS.values())]
    object_code(f"{TEXT}\n; another text", HOST)
    assert len(list(folder.iterdir())) == len(everywhere) + 1
    assert len(set(everywhere)) >= 4


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_damaged_object_is_built_again(folder: Path, damage: bytes | None) -> None:
    first = object_code(TEXT, HOST)
    (path,) = folder.iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?" if damage is None else damage)
    assert object_code(TEXT, HOST) == first
    assert path.read_bytes() == content


def test_objects_compile_without_a_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want = object_code(TEXT, HOST, cached=False)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert object_code(TEXT, HOST) == want
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert object_code(TEXT, HOST) == want


def homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_malformed_module_is_an_error_with_llvms_message() -> None:
    with pytest.raises(CodegenError, match=re.escape("native: module must be well-formed, got LLVM IR parsing error")):
        object_code("define nonsense", HOST, cached=False)
    wrong = "define i32 @f(i1 %c) {\nentry:\n  br i1 %c, label %one, label %two\none:\n  %x = add i32 1, 2\n"
    wrong += "  br label %two\ntwo:\n  ret i32 %x\n}\n"
    with pytest.raises(CodegenError, match="Instruction does not dominate all uses"):
        object_code(wrong, HOST, cached=False)


def test_missing_features_are_disabled() -> None:
    target = Target(
        name="old",
        triple="x86_64-unknown-linux-gnu",
        cpu="x86-64-v3",
        features=frozenset({"sse2"}),
        vector_bytes=16,
        vector_registers=16,
        missing=frozenset({"avx2"}),
    )
    assert objects.LlvmTarget.of(target).features == "+64bit,+sse2,-avx2"


def test_an_unknown_cpu_does_not_end_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    target = Target(
        name="typo",
        triple="x86_64-unknown-linux-gnu",
        cpu="znver-4",
        features=frozenset({"sse2"}),
        vector_bytes=16,
        vector_registers=16,
    )
    assert object_code(TEXT, target, cached=False).startswith(b"\x7fELF\x02")
    assert "'znver-4' is not a recognized processor" in capfd.readouterr().err


@pytest.mark.parametrize("target", [HOST, *TARGETS.values()], ids=lambda target: target.name)
def test_the_pool_compiles_for_every_target(target: Target) -> None:
    text = pool_text(target.triple)
    assert PAUSES[target.architecture] in text
    assert all(name.encode() in object_code(text, target, cached=False) for name in POOL_SYMBOLS)
