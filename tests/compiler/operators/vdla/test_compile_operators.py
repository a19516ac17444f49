# SPDX-License-Identifier: Apache-2.0
"""Many operators at once: the same programs as one by one, whatever the processes and the cache."""

from pathlib import Path

import pytest

from vdla.compiler.operators.vdla import compile_operators as _function
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates import TemplateCall, TemplateError, compile_operators, conv2d, dense, pool2d
from vdla.hardware.config import Config

TINY, PYNQ = Config.preset("tiny"), Config.preset("pynq_z1")
IMAGE = {"batch": 1, "height": 6, "width": 6, "in_channels": 8}
CALLS = [
    TemplateCall(conv2d, TINY, {**IMAGE, "out_channels": 8, "kernel": 3, "pads": 1}),
    TemplateCall(dense, TINY, {"rows": 3, "in_features": 20, "out_features": 12}),
    TemplateCall(dense, PYNQ, {"rows": 3, "in_features": 20, "out_features": 12}),
    TemplateCall(dense, TINY, {"rows": 3, "in_features": 20, "out_features": 12}),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "vdla" / "programs"


def hashes(calls: list[TemplateCall], **options: object) -> list[str]:
    return [program.hash for program in compile_operators(calls, **options)]  # type: ignore[arg-type]


def test_programs_do_not_depend_on_processes_and_cache(folder):
    expected = [call.operator().program.to_bytes() for call in CALLS]
    for options in ({"cached": False, "workers": 1}, {"cached": False, "workers": 2}, {}, {}, {"workers": 2}):
        assert [program.to_bytes() for program in compile_operators(CALLS, **options)] == expected
    assert len(list(folder.iterdir())) == 3


def test_an_entry_is_used_and_a_damaged_one_replaced(folder, monkeypatch):
    compile_operators(CALLS[:1])
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-9])
    compile_operators(CALLS[:1])
    assert entry.read_bytes() == whole
    monkeypatch.setattr(TemplateCall, "operator", None)
    assert hashes(CALLS[:1]) == hashes(CALLS[:1])


def test_every_option_and_the_machine_make_another_entry(folder):
    base = {"rows": 8, "in_features": 20, "out_features": 12}
    tiling = Tiling(rows=1, cols=1, out_blocks=1, in_blocks=1, keep_weights=False, threads=1, threads_over="cols")
    calls = [TemplateCall(dense, TINY, {**base, **more}) for more in ({}, {"raw": True}, {"tiling": tiling})]
    compile_operators([*calls, TemplateCall(dense, PYNQ, base)])
    assert len(list(folder.iterdir())) == 4


def test_a_cache_that_cannot_be_written_is_not_needed(tmp_path, monkeypatch):
    (tmp_path / "vdla").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert hashes(CALLS[1:2]) == [CALLS[1].operator().program.hash]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_wrong_call_is_refused_as_the_template_does(folder, workers):
    wrong = TemplateCall(pool2d, TINY, {"kind": "median"})
    with pytest.raises(TemplateError) as one:
        wrong.operator()
    with pytest.raises(TemplateError) as many:
        compile_operators([CALLS[0], wrong, CALLS[1]], workers=workers)
    assert str(many.value) == str(one.value)


def test_a_call_must_be_one():
    with pytest.raises(TemplateError) as error:
        _function([dense])
    assert str(error.value).startswith("compile_operators: calls must be TemplateCalls, got <function dense")
