# SPDX-License-Identifier: Apache-2.0
"""Chains of kernels against the same calls one by one."""

import time
from itertools import pairwise

import numpy as np
import pytest

from vdla.compiler import te
from vdla.runtime.native import Kernel, NativeError, build
from vdla.runtime.native.call_chain import CallChain, has_chains

COUNT = 16


def plus(value: float) -> Kernel:
    """y = x + value."""
    x = te.placeholder((COUNT,), "float32", "x")
    y = te.compute((COUNT,), lambda i: x[i] + value, "y")
    return build(te.create_function([x], [y], "plus"))


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_chain_equals_its_calls_in_order_and_tells_the_time_of_each(length):
    assert has_chains()
    arrays = [np.zeros(COUNT, np.float32) for _ in range(length + 1)]
    calls = [plus(n + 1).bind(a, out=b) for n, (a, b) in enumerate(pairwise(arrays))]
    chain = CallChain(calls)
    for start in (0, 10):
        arrays[0][:] = start
        before = time.monotonic_ns()
        times = np.frombuffer(chain(), np.int64)
        after = time.monotonic_ns()
        assert [a[3] for a in arrays] == list(start + np.cumsum(range(length + 1)))
        assert len(times) == length + 1
        assert list(times) == sorted(times)
        assert before <= times[0]
        assert times[-1] <= after


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_kernel_that_refuses_its_arrays_is_named_and_ends_the_chain(place):
    kernel, apart = plus(1), [np.zeros(COUNT, np.float32) for _ in range(6)]
    calls = [kernel.bind(apart[2 * n], out=apart[2 * n + 1]) for n in range(3)]
    memory = np.zeros(COUNT + 1, np.float32)
    calls[place] = kernel.bind(memory[:-1], out=memory[1:])
    with pytest.raises(NativeError) as alone:
        calls[place]()
    with pytest.raises(NativeError) as chained:
        CallChain(calls)()
    assert str(chained.value) == str(alone.value)
    assert [n for n in range(3) if n != place and apart[2 * n + 1][0] == 1] == list(range(place))
