# SPDX-License-Identifier: Apache-2.0
"""The thread pool: shared by all kernels, limited, fast, safe with threads and after fork."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from helpers import native_modules
from helpers.native_modules import Signature, expected

from vdla.compiler.abi import Argument
from vdla.compiler.codegen.llvm import compile_module
from vdla.compiler.target import Target
from vdla.runtime.native import Kernel, NativeError, load, set_threads, threads

F32 = np.float32
ROWS = 3_000
PATIENCE_S = 60
LONG = Signature("long", tuple(Argument(name, "float32", (ROWS, 4), name == "c") for name in "abc"))

PROCESSORS = len(os.sched_getaffinity(0))
TWO_PROCESSORS = pytest.mark.skipif(PROCESSORS < 2, reason=f"needs two processors, this process may use {PROCESSORS}")


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    yield
    set_threads(0)


def kernel(signature: Signature = LONG, work: int = 1) -> Kernel:
    made = native_modules.module(signature, parallel=True, work=work)
    return load(compile_module(made, signature, Target.named("host"), cached=False))


def arrays() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.random((ROWS, 4), F32), random.random((ROWS, 4), F32)


def test_the_limit_applies_to_all_kernels() -> None:
    before, after = kernel(), kernel()
    a, b = arrays()
    for count in (1, 2, np.int64(3), 7):
        set_threads(count)
        assert threads() == count
        for called in (before, after):
            np.testing.assert_array_equal(called(a, b), expected(a, b))
    set_threads(0)
    assert threads() >= 1


@pytest.mark.parametrize("count", [-1, 257, 1.5, "2", True, None])
def test_limits_outside_0_to_256_are_refused(count: object) -> None:
    message = f"set_threads: count must be an integer from 0 to 256, got {count!r}"
    with pytest.raises(NativeError, match=f"^{re.escape(message)}$"):
        set_threads(count)  # type: ignore[arg-type]


def test_kernels_share_their_workers() -> None:
    """Two kernels with three threads start two workers in total, not four."""
    program = """
import os, sys
sys.path.insert(0, {folder!r})
from test_pool import arrays, kernel
a, b = arrays()
before = len(os.listdir("/proc/self/task"))
for called in (kernel(), kernel()):
    called(a, b)
print(len(os.listdir("/proc/self/task")) - before)
"""
    assert python(program.format(folder=os.path.dirname(__file__)), VDLA_THREADS="3") == "2\n"
    assert python(program.format(folder=os.path.dirname(__file__)), VDLA_THREADS="1") == "0\n"


def python(program: str, **environment: str) -> str:
    folders = [path for path in sys.path if path]
    everything = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, env=everything, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_threads_may_call_concurrently() -> None:
    set_threads(3)
    called = kernel()
    a, b = arrays()
    want, wrong = expected(a, b), []

    def work() -> None:
        for _ in range(50):
            if not np.array_equal(called(a, b), want):
                wrong.append(threading.get_ident())

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE_S)
    assert not any(caller.is_alive() for caller in callers)
    assert wrong == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_its_own_pool() -> None:
    set_threads(3)
    called = kernel()
    a, b = arrays()
    want = expected(a, b)
    called(a, b)
    child = os.fork()
    if child == 0:
        fine = all(np.array_equal(called(a, b), want) for _ in range(20))
        os._exit(0 if fine and len(os.listdir("/proc/self/task")) == 3 else 1)
    assert wait(child) == 0
    np.testing.assert_array_equal(called(a, b), want)


def wait(child: int) -> int:
    """The exit code of a child process; fails if it does not end in time."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child must end, got none")


def test_python_exits_while_workers_sleep() -> None:
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_pool import arrays, kernel
kernel()(*arrays())
print("done")
"""
    assert python(program, VDLA_THREADS="4") == "done\n"


@TWO_PROCESSORS
def test_with_one_thread_the_caller_does_all_the_work() -> None:
    """With two threads, the caller does a part of it."""
    bound = kernel(work=500).bind(*arrays())
    shares = {1: 1.0, 2: 1.0}
    deadline = time.monotonic() + PATIENCE_S
    while shares[2] > 0.8 and time.monotonic() < deadline:
        for count in shares:
            set_threads(count)
            whole, own = time.process_time(), time.thread_time()
            bound()
            own, whole = time.thread_time() - own, time.process_time() - whole
            shares[count] = own / whole
        assert shares[1] > 0.95
    assert shares[2] <= 0.8
