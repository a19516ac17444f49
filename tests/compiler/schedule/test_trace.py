# SPDX-License-Identifier: Apache-2.0
"""A schedule's trace: the Python that it prints rebuilds the function to the letter."""

import random
from dataclasses import replace

import pytest
from helpers.random_schedules import FUNCTIONS, random_step
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.vdla.intrinsics import gemm
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.schedule.trace import PrimitiveCall, ScheduleTrace
from vdla.compiler.tensorize import TensorizeError
from vdla.hardware.config import Config


def scheduled() -> Schedule:
    s = Schedule(FUNCTIONS["matmul"])
    s.tile("c_i", "c_j", 2, x_factor=2)
    s.fuse("d_i", "d_j")
    s.cache_read("c", "b", scope="local")
    s.compute_once("b_local")
    s.annotate("c", "note", [1, "two"])
    return s


TEXT = """\
from vdla import Schedule


def schedule(fn):
    s = Schedule(fn)
    s.tile("c_i", "c_j", 2, 2, names=("c_i_o", "c_j_o", "c_i_i", "c_j_i"))
    s.fuse("d_i", "d_j", name="d_i_d_j")
    s.cache_read("c", "b", "local")
    s.compute_once("b_local")
    s.annotate("c", "note", [1, 'two'])
    return s
"""


def test_a_trace_prints_as_a_python_function():
    assert scheduled().python() == TEXT
    assert str(scheduled().trace).splitlines()[0] == TEXT.splitlines()[5].strip()


def test_the_printed_function_reproduces_the_schedule():
    names: dict = {}
    exec(TEXT, names)
    assert str(names["schedule"](FUNCTIONS["matmul"])) == str(scheduled())


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 40), st.sampled_from(sorted(FUNCTIONS)))
def test_a_replay_is_exact(seed, name):
    rng, s = random.Random(seed), Schedule(FUNCTIONS[name])
    for _ in range(rng.randint(1, 12)):
        step, *args = random_step(rng, s)
        before = s.trace
        try:
            getattr(s, step)(*args)
            assert len(s.trace) == len(before) + 1
        except ScheduleError:
            assert s.trace is before
    assert str(Schedule.replay(FUNCTIONS[name], s.trace)) == str(s)
    again = Schedule.replay(FUNCTIONS[name], s.python())
    assert str(again) == str(s)
    assert again.trace == s.trace


def test_intrinsics_are_given_by_name():
    config = Config.preset("tiny")
    step = gemm.gemm(config)
    other, third = replace(step), replace(step, name=f"{step.name}_2")
    trace = ScheduleTrace(tuple(PrimitiveCall("tensorize", ("i", used), {}) for used in (step, other, third, step)))
    assert str(trace).splitlines() == [
        f's.tensorize("i", intrinsics["{step.name}"])',
        f's.tensorize("i", intrinsics["{step.name}_2"])',
        f's.tensorize("i", intrinsics["{step.name}_2_2"])',
        f's.tensorize("i", intrinsics["{step.name}"])',
    ]
    assert trace.intrinsics == {step.name: step, f"{step.name}_2": other, f"{step.name}_2_2": third}


def test_a_refused_tensorize_changes_nothing():
    s = scheduled()
    before, trace = s.fn, s.trace
    with pytest.raises(TensorizeError):
        s.tensorize("k", gemm.gemm(Config.preset("tiny")))
    assert (s.fn, s.trace) == (before, trace)


CASES = [
    ("s.split('i', (", "replay: the text must be Python, got an error in line 1"),
    ("s" + ".a" * 2000, "replay: the text must be Python, got an expression that is nested too deep"),
    ("s.split('\ud800')", "replay: the text must be Python, got 'utf-8' codec can't encode character '\\ud800' "
     "in position 9: surrogates not allowed"),
    ("s.split('i', foo=3)", "replay: line 1: the arguments must be those of split, got s.split('i', foo=3): "
     "got an unexpected keyword argument 'foo'"),
    ("\ns.fuse('i', 'j', **{'name': 'p'})", "replay: line 2: the arguments must be those of fuse, "
     "got s.fuse('i', 'j', **{'name': 'p'}): got an unexpected keyword argument '**'"),
    ("s.split()", "replay: line 1: the arguments must be those of split, got s.split(): "
     "missing a required argument: 'loop'"),
    ("s.annotate('i', 'a', {[1]: 2})", "replay: line 1: an argument must be a literal, got {[1]: 2}"),
    ("import os", "replay: line 1 must apply a primitive to s, got import os"),
    ("s.split('i', 2)\nprint(1)", "replay: line 2 must apply a primitive to s, got print(1)"),
    ("s.loops('i')", "replay: line 1 must apply a primitive to s, got s.loops('i')"),
    ("s.split(x, 2)", "replay: line 1: an argument must be a literal, got x"),
    ('s.tensorize("i", intrinsics["dot"])',
     "replay: line 1: the intrinsic must be one of those given (none), got dot"),
    ('s.split("q", 2)', "split of q: loop must be one of i, j, c_i, c_j, k, d_i, d_j, got 'q'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), CASES)
def test_invalid_texts_are_not_replayed(text, message):
    with pytest.raises(ScheduleError) as error:
        Schedule.replay(FUNCTIONS["matmul"], text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "note", ["\u2028", "\x85", "\ud800", "\n", "\U0001f600", "a\"b'c\\", ("\u2028", ["\x85"])], ids=ascii
)
def test_any_string_argument_replays(note):
    s = Schedule(FUNCTIONS["matmul"])
    s.annotate("c", "note", note)
    assert Schedule.replay(FUNCTIONS["matmul"], s.python()).fn == s.fn
    assert Schedule.replay(FUNCTIONS["matmul"], str(s.trace)).fn == s.fn


def test_every_statement_of_a_text_is_replayed():
    text = 's.unroll("i")\ndef schedule(fn):\n    s.unroll("j")\ns.unroll("k")'
    assert len(Schedule.replay(FUNCTIONS["matmul"], text).trace) == 3


def test_only_primitives_are_replayed():
    with pytest.raises(ScheduleError, match=r"^replay: a step must be one of split, fuse, .*, got 'python'$"):
        Schedule.replay(FUNCTIONS["matmul"], ScheduleTrace((PrimitiveCall("python", (), {}),)))


def test_only_a_trace_or_its_text_is_replayed():
    with pytest.raises(ScheduleError) as error:
        Schedule.replay(FUNCTIONS["matmul"], None)  # type: ignore[arg-type]
    assert str(error.value) == "replay: trace must be a ScheduleTrace or its text, got NoneType"


def test_an_annotation_that_is_no_literal_cannot_be_written():
    s = Schedule(FUNCTIONS["matmul"])
    s.annotate("c", "note", {1}.add)
    with pytest.raises(ScheduleError, match="trace: an argument of annotate must be a literal or an intrinsic"):
        s.python()
