# SPDX-License-Identifier: Apache-2.0
"""Launches: what each thread of a grid does of a scheduled nest, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vdla.compiler import ir, te
from vdla.compiler.lowering.check import PassError
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.verification.grid.cooperative import centred_rows, tiled_product, total

LIMITS = GridLimits("a small device", threads=16, shared_bytes=512)


def chain() -> Schedule:
    """y[i, j] = 2 x[i, j] + 1 in two steps."""
    x = te.placeholder((4, 8), "int32", "x")
    twice = te.compute((4, 8), lambda i, j: x[i, j] * 2, "twice")
    return Schedule(te.create_function([x], [te.compute((4, 8), lambda i, j: twice[i, j] + 1, "y")], "chain"))


def two_launches() -> Schedule:
    s = chain()
    for block in ("twice", "y"):
        i, j = s.loops(block)
        s.bind(i, "blockIdx.x")
        s.bind(j, "threadIdx.x")
    return s


def test_nests_become_launches_with_a_temporary_between() -> None:
    first, second = lower_kernels(two_launches().fn, LIMITS)
    assert (first.name, second.name) == ("chain_0", "chain_1")
    assert (first.params, second.params) == (("x", "twice"), ("y", "twice"))
    assert (first.grid, first.block, first.threads) == ((4, 1, 1), (8, 1, 1), 8)
    assert first.buffers["twice"].shape == (4, 8)


def test_an_unbound_nest_is_one_thread() -> None:
    s = chain()
    s.inline("twice")
    (kernel,) = lower_kernels(s.fn, LIMITS)
    assert (kernel.grid, kernel.block) == ((1, 1, 1), (1, 1, 1))


def test_what_a_thread_alone_uses_is_local() -> None:
    s = chain()
    j = s.loops("y")[1]
    s.bind(j, "threadIdx.x")
    s.compute_at("twice", j)
    (kernel,) = lower_kernels(s.fn, LIMITS)
    assert kernel.buffers["twice"].scope == "local"
    assert (
        str(kernel)
        == """\
kernel chain(x, y) of (1, 1, 1) blocks of (8, 1, 1) threads:
    for y_i in range(4):
        with alloc(twice):
            twice[0, 0] = x[y_i, threadIdx.x] * 2
            y[y_i, threadIdx.x] = twice[0, 0] + 1"""
    )


def test_what_no_thread_uses_is_not_allocated() -> None:
    x = te.placeholder((4,), "int32", "x")
    copy = te.compute((4,), lambda i: x[i] + 1, "copy")
    y = te.compute((4,), lambda i: te.select(i + 4 < 4, copy[i + 4], x[i]), "y")
    s = Schedule(te.create_function([x], [y], "unused"))
    thread = s.loops("y")[0]
    s.compute_at("copy", thread)
    s.bind(thread, "threadIdx.x")
    (kernel,) = lower_kernels(s.fn, LIMITS)
    assert not any(isinstance(stmt, ir.Alloc) for stmt in ir.walk(kernel.body))


def test_virtual_threads_are_strides() -> None:
    s = chain()
    s.inline("twice")
    strand, thread = s.split(s.loops("y")[1], nparts=2)
    s.vthread(strand)
    s.bind(thread, "threadIdx.x")
    (kernel,) = lower_kernels(s.fn, LIMITS)
    assert kernel.block == (4, 1, 1)
    assert "y[y_i, threadIdx.x + y_j_o * 4] = x[y_i, threadIdx.x + y_j_o * 4] * 2 + 1" in str(kernel)


def test_threads_of_all_blocks_add_to_what_a_launch_before_cleared() -> None:
    clear, add = lower_kernels(total(12, 2, 3).fn, LIMITS)
    assert (
        str(clear)
        == """\
kernel total_0(y) of (1, 1, 1) blocks of (1, 1, 1) threads:
    y[0] = 0"""
    )
    assert (
        str(add)
        == """\
kernel total_1(x, y) of (2, 1, 1) blocks of (3, 1, 1) threads:
    for k_i_i in range(2):
        atomic:
            y[0] = y[0] + x[blockIdx.x * 6 + threadIdx.x * 2 + k_i_i]"""
    )


def test_an_update_of_a_local_element_is_plain() -> None:
    x, k = te.placeholder((4, 8), "int32", "x"), te.reduce_axis(8, "k")
    s = Schedule(te.create_function([x], [te.compute((4,), lambda i: te.sum(x[i, k], axis=k), "y")], "rows"))
    s.atomic("y")
    thread = s.loops(s.cache_write("y", "local"))[0]
    s.bind(thread, "threadIdx.x")
    s.compute_at("y", thread)
    (kernel,) = lower_kernels(s.fn, LIMITS)
    assert kernel.buffers["y_local"].scope == "local"
    assert not any(isinstance(stmt, ir.Atomic) for stmt in ir.walk(kernel.body))


def wide_block(s: Schedule) -> None:
    s.inline("twice")
    s.bind(s.fuse(*s.loops("y")), "threadIdx.x")


def crossed_local(s: Schedule) -> None:
    i, j = s.loops("y")
    s.set_scope("twice", "local")
    s.compute_at("twice", i)
    s.bind(j, "threadIdx.x")


def shared_by_launches(s: Schedule) -> None:
    s.set_scope("twice", "shared")


def shared_by_blocks(s: Schedule) -> None:
    i, j = s.loops("y")
    s.set_scope("twice", "shared")
    s.compute_at("twice", i)
    s.bind(j, "blockIdx.x")


def race_in_shared(s: Schedule) -> None:
    """Each thread computes the whole row for itself, in one shared buffer."""
    j = s.loops("y")[1]
    s.set_scope("twice", "shared")
    s.bind(j, "threadIdx.x")
    s.compute_at("twice", j)


REFUSED = [
    (wide_block, "chain: a block must have at most 16 threads on a small device, got 32 (32 x 1 x 1)"),
    (crossed_local,
     "chain: the buffer twice in local must have all its accesses in one thread, got some in the loop y_j, which deals "
     "them out over threadIdx.x; place the loop around all of them"),
    (shared_by_launches,
     "chain: the buffer twice in shared must have all its accesses in one nest, which is one launch, got them in 2"),
    (shared_by_blocks,
     "chain: the buffer twice in shared must have all its accesses in one block of threads, got some in the loop y_j, "
     "which deals them out over blockIdx.x; place the loop around all of them"),
    (race_in_shared,
     "chain: threads of a block must not access one element, to write it, without a barrier between, "
     "got the write of twice[0, j] in several threads"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_a_device_cannot_run_is_refused(change: Callable[[Schedule], None], message: str) -> None:
    s = chain()
    change(s)
    with pytest.raises(PassError) as error:
        lower_kernels(s.fn, LIMITS)
    assert str(error.value) == message


def test_shared_memory_is_limited() -> None:
    with pytest.raises(PassError) as error:
        lower_kernels(tiled_product(32, 16, 4, 8).fn, LIMITS)
    rule = "product: a block must have at most 512 bytes of shared memory on a small device"
    assert str(error.value) == f"{rule}, got 1024 (a_shared [16, 8], b_shared [8, 16])"


def test_an_axis_has_one_extent_in_a_nest() -> None:
    s = centred_rows(3, 10, 4)
    s.split("j_i", factor=2)
    with pytest.raises(PassError) as error:
        lower_kernels(s.fn, LIMITS)
    assert str(error.value) == "centred: the loops of threadIdx.x must have one extent, 4 as k_o, got 2 for j_i_i"


def test_threads_along_an_axis_are_limited() -> None:
    s = centred_rows(3, 24, 12)
    flat = GridLimits("a flat device", threads_along=(8, 1024, 64))
    with pytest.raises(PassError) as error:
        lower_kernels(s.fn, flat)
    assert str(error.value) == (
        "centred: a block must have at most 8 threads along x on a flat device, got 12; "
        "bind another loop to threadIdx.x, or split this one"
    )
