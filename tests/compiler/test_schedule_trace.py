"""A schedule's trace: the Python that it prints rebuilds the function to the letter."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_schedule_random import FUNCTIONS, random_step

from vdla.compiler.intrinsics import gemm
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.schedule.trace import Step, Trace
from vdla.compiler.tensorize import TensorizeError
from vdla.hardware.config import Config


def scheduled() -> Schedule:
    s = Schedule(FUNCTIONS["matmul"])
    s.tile("c_i", "c_j", 2, x_factor=2)
    s.fuse("d_i", "d_j")
    s.cache_read("c", "b", scope="local")
    s.keep("b_local")
    s.annotate("c", "note", [1, "two"])
    return s


TEXT = """\
from vdla.compiler.schedule import Schedule


def schedule(fn):
    s = Schedule(fn)
    s.tile("c_i", "c_j", 2, 2, names=("c_i_o", "c_j_o", "c_i_i", "c_j_i"))
    s.fuse("d_i", "d_j", name="d_i_d_j")
    s.cache_read("c", "b", "local")
    s.keep("b_local")
    s.annotate("c", "note", [1, 'two'])
    return s
"""


def test_the_text():
    assert scheduled().python() == TEXT
    assert str(scheduled().trace).splitlines()[0] == TEXT.splitlines()[5].strip()


def test_the_text_is_python():
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
    other = replace(step)
    trace = Trace((Step("tensorize", ("i", step), {}), Step("tensorize", ("j", other), {})))
    assert str(trace).splitlines() == [
        f's.tensorize("i", intrinsics["{step.name}"])',
        f's.tensorize("j", intrinsics["{step.name}_2"])',
    ]
    assert trace.intrinsics == {step.name: step, f"{step.name}_2": other}


def test_a_refused_tensorize_changes_nothing():
    s = scheduled()
    before, trace = s.fn, s.trace
    with pytest.raises(TensorizeError):
        s.tensorize("k", gemm.gemm(Config.preset("tiny")))
    assert (s.fn, s.trace) == (before, trace)


CASES = [
    ("s.split('i', (", "replay: the text must be Python, got an error in line 1"),
    ("s.split('i', 2)\nprint(1)", "replay: line 2 must apply a primitive to s, got print(1)"),
    ("s.loops('i')", "replay: line 1 must apply a primitive to s, got s.loops('i')"),
    ("s.split(x, 2)", "replay: line 1: an argument must be a literal, got x"),
    ('s.tensorize("i", intrinsics["dot"])',
     "replay: line 1: the intrinsic must be one of those given (none), got dot"),
    ('s.split("q", 2)', "split of q: loop must be one of i, j, c_i, c_j, k, d_i, d_j, got 'q'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), CASES)
def test_what_cannot_be_replayed(text, message):
    with pytest.raises(ScheduleError) as error:
        Schedule.replay(FUNCTIONS["matmul"], text)
    assert str(error.value) == message


def test_an_annotation_that_is_no_literal_cannot_be_written():
    s = Schedule(FUNCTIONS["matmul"])
    s.annotate("c", "note", {1}.add)
    with pytest.raises(ScheduleError, match="trace: an argument of annotate must be a literal or an intrinsic"):
        s.python()
