# SPDX-License-Identifier: Apache-2.0
"""Programs: consistency, links, placement; damaged files are refused."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import replace

import numpy as np
import pytest
from helpers.random_instructions import unordered_program
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.hardware.config import PRESETS, Config, Dram
from vdla.hardware.isa import Buffer, Gemm, Load, Store, columns, decode, encode
from vdla.hardware.program import STREAM, Program, ProgramError, ProgramTensor, load, place
from vdla.support.sealed_file import HEADER, PREFIX_BYTES

PYNQ = Config.preset("pynq_z1")
X = ProgramTensor(name="x", role="input", shape=(64,), dtype="int8", layout="C", nbytes=64)
Y = ProgramTensor(name="y", role="output", shape=(64,), dtype="int8", layout="C", nbytes=64)


def small(**changes):
    instructions = [Load(Buffer.INP, dram=1), Load(Buffer.INP, x_size=0, x_after=1), Gemm(), Store(dram=2)]
    values = {
        "config": PYNQ,
        "name": "small",
        "words": encode(PYNQ, instructions),
        "tensors": (X, Y),
        "tensor_of": np.array([0, 0, -1, 1], np.int32),
        "source_lines": ("line",),
        "source_of": np.array([0, -1, -1, 0], np.int32),
    }
    return Program(**{**values, **changes})


def same(a, b):
    """Whether two programs are equal in every field."""
    parts = [(p.config, p.name, p.tensors, p.source_lines, p.hash) for p in (a, b)]
    arrays = [(p.words, p.tensor_of, p.source_of) for p in (a, b)]
    return parts[0] == parts[1] and all(np.array_equal(x, y) for x, y in zip(*arrays, strict=True))


# --- files ----------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(list(PRESETS.values())), st.integers(0, 1 << 32), st.integers(0, 30))
def test_programs_round_trip_through_bytes(config, seed, count):
    program = unordered_program(config, seed, count)
    assert same(Program.from_bytes(program.to_bytes(), "here"), program)


def test_programs_round_trip_through_files(tmp_path):
    path = tmp_path / "p.vdla"
    path.write_bytes(b"old")
    program = unordered_program(PYNQ, 1)
    program.save(path)
    assert same(Program.load(path), program)
    assert same(load(str(path)), program)
    assert os.listdir(tmp_path) == ["p.vdla"]


def test_a_failed_save_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "p.vdla"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ProgramError) as error:
        small().save(path)
    assert str(error.value) == f"{path}: path must be writable, got No space left on device"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["p.vdla"]


def test_unusable_program_paths_are_refused(tmp_path):
    with pytest.raises(ProgramError) as error:
        small().save(tmp_path / "none" / "p.vdla")
    assert str(error.value) == f"{tmp_path}/none/p.vdla: path must be writable, got No such file or directory"
    with pytest.raises(ProgramError) as error:
        load(tmp_path)
    assert str(error.value) == f"{tmp_path}: path must be a regular file, got a folder"


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    (tmp_path / "link.vdla").symlink_to(tmp_path / "p.vdla")
    small().save(tmp_path / "link.vdla")
    assert (tmp_path / "link.vdla").is_symlink()
    assert same(load(tmp_path / "p.vdla"), small())
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    small().save(tmp_path / "pipe")
    assert os.read(reader, 1 << 16) == small().to_bytes()
    os.close(reader)
    with pytest.raises(ProgramError) as error:
        load(tmp_path / "pipe")
    assert str(error.value) == f"{tmp_path}/pipe: path must be a regular file, got a device or a pipe"


def test_every_flipped_bit_and_every_truncation_is_refused():
    content = small().to_bytes()
    for position in range(len(content)):
        with pytest.raises(ProgramError, match=r"^p\.vdla: "):
            Program.from_bytes(content[:position], "p.vdla")
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        with pytest.raises(ProgramError, match=r"^p\.vdla: "):
            Program.from_bytes(bytes(flipped), "p.vdla")


def sealed(manifest, payload=b"", version=1):
    """A file with a valid checksum."""
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    header = HEADER.pack(b"VDLAPROG", version, len(text), len(payload))
    return header + hashlib.sha256(header + text + payload).digest() + text + payload


LENGTH = len(small().to_bytes())
GOOD = {"name": "n", "config": {}, "instructions": 0, "tensors": [], "source_lines": []}
TENSOR = {
    "name": "x",
    "role": "weight",
    "dtype": "int8",
    "layout": "",
    "nbytes": 1 << 36,
    "shape": [1 << 36],
    "has_data": True,
}

INPUT = {**TENSOR, "role": "input", "dtype": "uint8", "nbytes": 4, "shape": [32, 400_000_000], "has_data": False}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"PK\3\4 a zip file",
            "f: file must be a program (vdla compile C6 -o c6.vdla), got one that begins with b'PK\\x03\\x04 a z'",
        ),
        (b"", "f: file must be a program (vdla compile C6 -o c6.vdla), got an empty file"),
        (b"VDLAPROG", "f: length must be at least 56 bytes, got 8 (truncated)"),
        (small().to_bytes()[:-1], f"f: length must be {LENGTH} bytes, got {LENGTH - 1}"),
        (sealed(GOOD, version=2), "f: format version must be at most 1, got 2 (made by a newer vdla)"),
        (sealed({}), "f: manifest must describe a program, got KeyError: 'config'"),
        (
            sealed({**GOOD, "config": {"batch": 3}}),
            "f: content must be a valid program, got config custom: batch must be a power of two from 1 to 64, got 3",
        ),
        (
            sealed({**GOOD, "instructions": 1 << 40}),
            f"f: content must be a valid program, got words: size must be at most the 0 bytes left, got {1 << 45}",
        ),
        (
            sealed({**GOOD, "instructions": -1}),
            "f: content must be a valid program, got words: size must be at most the 0 bytes left, got -32",
        ),
        (
            sealed({**GOOD, "tensors": [TENSOR]}),
            f"f: content must be a valid program, got tensor x: size must be at most the 0 bytes left, got {1 << 36}",
        ),
        (
            sealed({**GOOD, "tensors": [INPUT]}),
            "f: content must be a valid program, got tensor x: dtype must be one of "
            "int2, int4, int8, int32, int64, got 'uint8'",
        ),
        (
            sealed({**GOOD, "tensors": [{**INPUT, "dtype": "int8"}]}),
            "f: content must be a valid program, "
            "got tensor x: nbytes must be 12800000000 for int8[32, 400000000], got 4",
        ),
        (
            sealed({**GOOD, "name": 5}),
            "f: content must be a valid program, got program: name must be a printable string, got 5",
        ),
        (sealed(GOOD, b"x"), "f: content must be a valid program, got payload: size must be 0 bytes, got 1"),
        (
            sealed({**GOOD, "source_lines": [1]}),
            "f: content must be a valid program, got program n: source_lines must be a tuple of str, got (1,)",
        ),
    ],
)
def test_invalid_contents_are_refused(content, message):
    with pytest.raises(ProgramError) as error:
        Program.from_bytes(content, "f")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("manifest", "fault"),
    [
        (b"{", "JSONDecodeError"),
        (b"[" * 100_000, "RecursionError"),
        ([], "TypeError"),
        ({**GOOD, "tensors": 7}, "TypeError"),
    ],
    ids=["truncated", "nested", "list", "tensors"],
)
def test_a_manifest_that_describes_no_program_is_refused(manifest, fault):
    with pytest.raises(ProgramError, match=f"^f: manifest must describe a program, got {fault}: "):
        Program.from_bytes(sealed(manifest), "f")


def test_damage_and_truncation_have_different_messages():
    content = small().to_bytes()
    with pytest.raises(ProgramError) as error:
        Program.from_bytes(content[:-1], "f")
    assert str(error.value) == f"f: length must be {len(content)} bytes, got {len(content) - 1}"
    with pytest.raises(ProgramError, match=r"^f: checksum must be [0-9a-f]{12}, got [0-9a-f]{12} \(damaged\)$"):
        Program.from_bytes(content[:-1] + b"\xff", "f")
    assert struct.calcsize("<8sIIQ") + 32 == PREFIX_BYTES


# --- hash -----------------------------------------------------------------------------------------


def test_the_hash_covers_exactly_what_the_machine_executes():
    program = small()
    same_hash = [
        small(name="other"),
        small(source_lines=("x", "y")),
        small(config=replace(PYNQ, name="mine", dram=Dram(read_latency=7), command_depth=4)),
    ]
    words = program.words.copy()
    words[0, 20] ^= 1
    other_hash = [
        small(words=words),
        small(tensor_of=np.array([0, 0, -1, 0], np.int32)),
        small(tensors=(X, replace(Y, nbytes=72, shape=(72,)))),
        small(tensors=(X, replace(Y, role="weight", data=bytes(64)))),
        small(config=replace(PYNQ, burst_beats=8)),
    ]
    assert {p.hash for p in same_hash} == {program.hash}
    assert len({p.hash for p in [program, *other_hash]}) == 6
    assert len(program.hash) == 16


# --- links ----------------------------------------------------------------------------------------


def test_link_relocates_only_instructions_with_a_tensor():
    words = small().link({"x": 0x1000, "y": 0x2000})
    assert (small().linked_columns({"x": 0x1000, "y": 0x2000}) == columns(PYNQ, words)).all()
    linked = decode(PYNQ, words)
    assert [getattr(i, "dram", None) for i in linked] == [0x1000 // 8 + 1, 0, None, 0x2000 // 8 + 2]
    assert linked[2] == Gemm()


def test_place_aligns_tensors_to_pages():
    addresses, end = place(small(tensors=(X, replace(Y, nbytes=4097, shape=(4097,)))), base=100)
    assert addresses == {"x": 4096, "y": 8192, STREAM: 16384}
    assert end == 16384 + 4 * 32


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ({"x": 0}, "program small: address of y must be given, got addresses of x"),
        ({"x": 4, "y": 0}, "program small: address of x must be a multiple of 8 from 0, got 4"),
        ({"x": -8, "y": 0}, "program small: address of x must be a multiple of 8 from 0, got -8"),
        ({"x": "a", "y": 0}, "program small: address of x must be an integer, got 'a'"),
        ({"x": 0, "y": 512, STREAM: None}, f"program small: address of {STREAM} must be an integer, got None"),
    ],
)
def test_invalid_addresses_are_refused(addresses, message):
    with pytest.raises(ProgramError) as error:
        small().link(addresses)
    assert str(error.value) == message


# --- consistency ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "program: name must be a printable string, got ''"),
        ({"words": np.zeros((4, 31), np.uint8)}, "program small: words must be uint8[4, 32], got uint8[4, 31]"),
        ({"tensor_of": np.zeros(4)}, "program small: tensor_of must be int32[4], got float64[4]"),
        (
            {"tensor_of": np.array([2, 0, -1, 1], np.int32)},
            "program small: tensor_of[0] must be an integer from -1 to 1, got 2",
        ),
        (
            {"tensor_of": np.array([0, 0, 1, 1], np.int32)},
            "program small: tensor_of[2] must be -1 for all but LOAD and STORE, got 1",
        ),
        (
            {"source_of": np.array([0, 0, -2, 0], np.int32)},
            "program small: source_of[2] must be an integer from -1 to 0, got -2",
        ),
        (
            {
                "tensors": (
                    X,
                    ProgramTensor(
                        name="uops", role="constant", shape=(3,), dtype="uop", layout="", nbytes=16, data=bytes(16)
                    ),
                )
            },
            "tensor uops: nbytes must be 24 for uop[3], got 16",
        ),
        ({"tensors": (X, X)}, "program small: names of tensors must differ, got x twice"),
        ({"source_lines": ("a\nb",)}, "program small: a source line must be one line of text, got 'a\\nb'"),
    ],
)
def test_inconsistent_programs_are_refused(changes, message):
    with pytest.raises(ProgramError) as error:
        small(**changes)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a+b"}, "tensor: name must be a letter, then letters, digits, _ . : / -, got 'a+b'"),
        (
            {"role": "in"},
            "tensor x: role must be one of input, weight, constant, output, scratch, resident, part, got in",
        ),
        ({"nbytes": 0}, "tensor x: nbytes must be an integer from 1 to 137438953472, got 0"),
        ({"nbytes": True}, "tensor x: nbytes must be an integer from 1 to 137438953472, got True"),
        ({"shape": (-1,)}, "tensor x: shape must be of integers from 1, got (-1,)"),
        ({"shape": (0, 4), "nbytes": 0}, "tensor x: shape must be of integers from 1, got (0, 4)"),
        ({"dtype": "foo", "nbytes": 0}, "tensor x: dtype must be one of int2, int4, int8, int32, int64, got 'foo'"),
        ({"dtype": "uint8"}, "tensor x: dtype must be one of int2, int4, int8, int32, int64, got 'uint8'"),
        ({"dtype": "float32"}, "tensor x: dtype must be one of int2, int4, int8, int32, int64, got 'float32'"),
        ({"dtype": "int66"}, "tensor x: dtype must be one of int2, int4, int8, int32, int64, got 'int66'"),
        ({"dtype": 8}, "tensor x: dtype must be one of int2, int4, int8, int32, int64, got 8"),
        (
            {"role": "constant", "dtype": "bool", "data": bytes(64)},
            "tensor x: dtype must be one of int2, int4, int8, int32, int64, uint8, uop, got 'bool'",
        ),
        ({"shape": (32, 400_000_000)}, "tensor x: nbytes must be 12800000000 for int8[32, 400000000], got 64"),
        ({"dtype": "int4", "shape": (3, 5)}, "tensor x: int4[3, 5] must fill whole bytes, got 4 bits more"),
        ({"layout": "\n"}, "tensor x: layout must be a printable string, got '\\n'"),
        ({"role": "constant"}, "tensor x: a constant must have data, got none"),
        ({"data": b"1"}, "tensor x: data must be none for role input, got 1 bytes"),
        ({"role": "weight", "data": b"1"}, "tensor x: data must be nbytes=64 long, got 1"),
    ],
)
def test_invalid_tensors_are_refused(changes, message):
    with pytest.raises(ProgramError) as error:
        replace(X, **changes)
    assert str(error.value) == message


def test_tensors_are_found_by_name():
    assert small().tensor("y") is Y
    with pytest.raises(ProgramError, match=r"^program small: tensor must be one of x, y, got z$"):
        small().tensor("z")


def test_arrays_of_a_program_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        small().words[0, 0] = 1
