# SPDX-License-Identifier: Apache-2.0
"""Random schedules: whatever is accepted keeps the meaning; what is refused leaves the schedule as
it was."""

import random

import numpy as np
from helpers.random_schedules import EXPECTED, FUNCTIONS, inputs, random_step
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule, ScheduleError


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 1 << 40), st.sampled_from(sorted(FUNCTIONS)))
def test_random_accepted_schedules_preserve_results(seed, name):
    fn, rng = FUNCTIONS[name], random.Random(seed)
    arrays = inputs(fn)
    s = Schedule(fn)
    done = []
    for _ in range(rng.randint(1, 12)):
        step, *args = random_step(rng, s)
        before = s.fn
        try:
            getattr(s, step)(*args)
            done.append((step, *args))
        except ScheduleError as error:
            assert s.fn is before
            assert str(error).startswith(step)
    got = interpret(s.fn, arrays)
    for output, array in EXPECTED[name].items():
        np.testing.assert_array_equal(got[output], array, err_msg=f"{done}\n{s.fn}")
