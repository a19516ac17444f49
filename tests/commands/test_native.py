# SPDX-License-Identifier: Apache-2.0
"""`vdla native`: its files, output and errors; the object is linked and run."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from vdla.cli import main
from vdla.commands import BAD_INPUT, OK
from vdla.compiler.codegen import ptx
from vdla.compiler.ir import DTYPES
from vdla.compiler.target import PTX_ARCHITECTURES, TARGETS
from vdla.runtime.native import NativeLibrary

Capture = pytest.CaptureFixture[str]
DENSE = ("dense", "--shape", "rows=4", "in_features=10", "out_features=6")


def complaint(capsys: Capture, *arguments: str) -> str:
    assert main(["native", *arguments]) == BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.removeprefix("vdla: ").removesuffix("\n")


def test_an_object_and_a_header_are_written_for_another_cpu(tmp_path: Path, capsys: Capture) -> None:
    assert main(["native", *DENSE, "--target", "cortex-a9", "-o", str(tmp_path / "out")]) == OK
    folder = tmp_path / "out"
    assert sorted(path.name for path in folder.iterdir()) == ["dense.h", "dense.o"]
    content = (folder / "dense.o").read_bytes()
    assert content[:5] == b"\x7fELF\x01"  # 32 bits
    assert content[18] == 40  # Arm
    assert "0: x, input, float32 (4, 10)" in (folder / "dense.h").read_text()
    said = f"dense: {len(content):,} bytes for cortex-a9 (armv7a-unknown-linux-gnueabihf); link with -lm"
    assert capsys.readouterr().out.splitlines() == [f"{folder}/dense.o", f"{folder}/dense.h", said]


def test_the_object_computes_the_operator(tmp_path: Path) -> None:
    assert main(["native", *DENSE, "-o", str(tmp_path)]) == OK
    command = ["gcc", "-shared", "-Wl,-z,defs", f"{tmp_path}/dense.o", "-o", f"{tmp_path}/dense.so", "-lm", "-lpthread"]
    subprocess.run(command, check=True, timeout=60)
    random = np.random.default_rng(0)
    x, weight = random.random((4, 10), np.float32), random.random((6, 10), np.float32)
    y = NativeLibrary(tmp_path / "dense.so").kernel("dense")(x, weight)
    np.testing.assert_allclose(y, x @ weight.T, rtol=1e-5)


def test_assembly_and_llvm_are_written_on_request(tmp_path: Path) -> None:
    shape = ("--shape", "rows=2", "columns=5")
    assert main(["native", "softmax", *shape, "--assembly", "--llvm", "--target", "aarch64", "-o", str(tmp_path)]) == OK
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".h", ".ll", ".o", ".s"]
    assert "softmax:" in (tmp_path / "softmax.s").read_text()
    assert 'target triple = "aarch64-unknown-linux-gnu"' in (tmp_path / "softmax.ll").read_text()


def test_kernels_for_a_gpu_are_written_with_what_they_take(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["native", *DENSE, "--target", "sm_80", "-o", str(tmp_path)]) == OK
    assert ".visible .entry dense_kernel(" in (tmp_path / "dense.ptx").read_text()
    assert capsys.readouterr().out.splitlines()[0] == f"{tmp_path}/dense.ptx"
    monkeypatch.setattr(ptx, "find_ptxas", lambda: None)
    assert main(["native", *DENSE, "--target", "sm_80", "-o", str(tmp_path)]) == OK
    reason = "ptxas is not installed: no machine code (the extra cuda has it)"
    assert capsys.readouterr().out.splitlines() == [f"{tmp_path}/dense.ptx", reason]
    assert complaint(capsys, *DENSE, "--target", "sm_80", "--llvm") == (
        "native: --llvm must be left out for the GPU sm_80, got it"
    )
    choices = ", ".join(PTX_ARCHITECTURES)
    assert complaint(capsys, *DENSE, "--target", "sm_81") == f"ptx: arch must be one of {choices}, got 'sm_81'"


@pytest.mark.parametrize("layer", ["D9", "ct1"])
def test_layers_are_compiled_by_name(layer: str, tmp_path: Path) -> None:
    assert main(["native", layer, "--target", "cortex-a9", "-o", str(tmp_path)]) == OK
    assert (tmp_path / f"{layer.lower()}.o").stat().st_size > 0


def test_the_list_has_operators_layers_and_targets(capsys: Capture) -> None:
    assert main(["native", "--list"]) == OK
    text = capsys.readouterr().out
    assert "conv2d\n  height=N width=N in_channels=N out_channels=N kernel=N [strides=1] [pads=0] [batch=1]\n" in text
    assert f"targets\n  host {' '.join(TARGETS)}\nGPUs\n  {' '.join(PTX_ARCHITECTURES)}\n" in text
    assert " C12 D1 " in text


def test_bad_arguments_of_native_are_refused_in_one_line(tmp_path: Path, capsys: Capture) -> None:
    operators = "conv2d, depthwise_conv2d, conv2d_transpose, dense, softmax"
    assert complaint(capsys).startswith(f"native: operator must be one of {operators}, C1, ")
    assert complaint(capsys, *DENSE, "--threads", "2") == "native: --tuned must be given with --threads 2, got none"
    assert complaint(capsys, "conv3d").endswith("CT3, got conv3d (did you mean conv2d?)")
    assert complaint(capsys, "c6", "--shape", "rows=1") == (
        "native c6: --shape must be left out for a named layer, got rows=1"
    )
    assert complaint(capsys, "softmax", "--shape", "rows=1", "rows=2") == (
        "native softmax: rows must be given once, got it twice"
    )
    assert complaint(capsys, "softmax", "--shape", "rows=1") == (
        "native softmax: shape must give columns, got none (--shape columns=N)"
    )
    assert complaint(capsys, "softmax", "--shape", "depth=1") == (
        "native softmax: key must be one of rows, columns, got depth"
    )
    assert complaint(capsys, "softmax", "--shape", "rows=x") == "native softmax: rows must be an integer, got 'x'"
    targets = f"host, {', '.join(TARGETS)}"
    assert complaint(capsys, "c6", "--target", "z80") == f"target: name must be one of {targets}, got 'z80'"
    (tmp_path / "file").write_text("")
    assert (
        complaint(capsys, *DENSE, "-o", str(tmp_path / "file"))
        == f"{tmp_path}/file: output must be a folder, got a file"
    )
    extent = "te.placeholder weight: extent 0 of the shape must be a positive integer, got 0"
    assert complaint(capsys, *DENSE[:-1], "out_features=0") == extent
    dtype = complaint(capsys, *DENSE, "--dtype", "float12")
    assert dtype == f"te.placeholder x: the dtype must be one of {', '.join(DTYPES)}, got float12"


def test_all_files_are_written_or_none(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "dense.h").mkdir()
    said = complaint(capsys, *DENSE, "-o", str(tmp_path))
    assert said == f"native: output must be a file, got the folder {tmp_path}/dense.h"
    assert [path.name for path in tmp_path.iterdir()] == ["dense.h"]


def test_a_full_disk_leaves_the_old_files(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.suffix == ".s":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, content)

    (tmp_path / "dense.h").write_text("old")
    monkeypatch.setattr(Path, "write_bytes", full)
    said = complaint(capsys, *DENSE, "--assembly", "-o", str(tmp_path))
    assert said == f"{tmp_path}/dense.o: No space left on device"
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
