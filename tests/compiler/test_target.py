# SPDX-License-Identifier: Apache-2.0
"""Targets: the CPUs known by name, and this machine's."""

from __future__ import annotations

import re

import pytest

from vdla.compiler.target import TARGETS, Target, TargetError, _vectors, architecture_of


def test_targets_are_found_by_their_names() -> None:
    assert [Target.named(name).name for name in TARGETS] == list(TARGETS)
    assert repr(TARGETS["cortex-a9"]) == "<Target cortex-a9>"


@pytest.mark.parametrize("name", ["z80", ["host"], None])
def test_unknown_names_are_refused(name: str) -> None:
    message = f"target: name must be one of host, {', '.join(TARGETS)}, got {name!r}"
    with pytest.raises(TargetError, match=f"^{re.escape(message)}$"):
        Target.named(name)


@pytest.mark.parametrize("name", ["host", *TARGETS])
def test_vectors_hold_whole_elements(name: str) -> None:
    target = Target.named(name)
    assert target.lanes(8) * 8 == target.lanes(1) == target.vector_bytes
    assert target.vector_registers in (16, 32)
    assert not target.features & target.missing


def test_the_host_is_described_by_llvm() -> None:
    host = Target.named("host")
    assert host.architecture == architecture_of(host.triple)
    assert host.cpu
    assert not host.has("no such feature")


@pytest.mark.parametrize(
    ("triple", "architecture"),
    [
        ("x86_64-unknown-linux-gnu", "x86_64"),
        ("armv7a-unknown-linux-gnueabihf", "arm"),
        ("armv7l-unknown-linux-gnueabihf", "arm"),
        ("aarch64-unknown-linux-gnu", "aarch64"),
        ("arm64-apple-darwin", "aarch64"),
    ],
)
def test_the_architecture_is_read_from_the_triple(triple: str, architecture: str) -> None:
    assert architecture_of(triple) == architecture


def test_unknown_architectures_are_refused() -> None:
    message = "target: architecture must be one of x86_64, arm, aarch64, got riscv64"
    with pytest.raises(TargetError, match=f"^{message}$"):
        architecture_of("riscv64-unknown-linux-gnu")


@pytest.mark.parametrize(
    ("architecture", "features", "vectors"),
    [
        ("x86_64", {"avx512f", "avx2"}, (64, 32)),
        ("x86_64", {"avx2"}, (32, 16)),
        ("x86_64", {"sse2"}, (16, 16)),
        ("aarch64", {"neon"}, (16, 32)),
        ("arm", {"neon"}, (16, 16)),
    ],
)
def test_registers_follow_the_features(architecture: str, features: set[str], vectors: tuple[int, int]) -> None:
    assert _vectors(architecture, frozenset(features)) == vectors
