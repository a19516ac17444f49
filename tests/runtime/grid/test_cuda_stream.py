# SPDX-License-Identifier: Apache-2.0
"""Arrays and streams on a CUDA driver that does nothing before something waits for it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stub_cuda import StubCuda

from vdla.runtime.grid.cuda_devices import open_cuda
from vdla.runtime.grid.cuda_driver import CudaDeviceError
from vdla.runtime.grid.cuda_stream import Staging

X = np.arange(12, dtype=np.int32).reshape(3, 4)


def test_an_array_may_be_changed_while_it_is_copied(stub_cuda: StubCuda) -> None:
    stream, data = open_cuda().stream(), X.copy()
    array = stream.upload(data)
    data[...] = -1
    assert "cuStreamSynchronize" not in stub_cuda.log
    np.testing.assert_array_equal(stream.download(array), X)


def test_a_buffer_is_used_again_once_its_copy_is_done(stub_cuda: StubCuda) -> None:
    stream, device = open_cuda().stream(), open_cuda()
    first, second = stream.upload(X), stream.upload(X + 1)
    assert stub_cuda.log.count("cuMemHostAlloc 48") == 2  # neither copy is done
    stream.synchronize()
    third = stream.upload(X + 2, device.empty(X.shape, "int32"))
    assert stub_cuda.log.count("cuMemHostAlloc 48") == 2
    stream.upload(np.zeros(100, np.int8))
    assert "cuMemHostAlloc 100" in stub_cuda.log
    for number, array in enumerate((first, second, third)):
        np.testing.assert_array_equal(stream.download(array), X + number)
    assert stub_cuda.live["host memory"] == 2  # the buffer that was too small has gone


def test_a_stream_waits_for_an_event_of_another(stub_cuda: StubCuda) -> None:
    device = open_cuda()
    first, second, x = device.stream(), device.stream(), device.empty(X.shape, "int32")
    first.upload(X, x)
    assert not (second.download(x) == X).any()  # of arbitrary content: nobody has waited for `first`
    event = first.record()
    second.wait(event)
    np.testing.assert_array_equal(second.download(x), X)


def test_the_time_between_events_waits_for_both(stub_cuda: StubCuda) -> None:
    stream = open_cuda().stream()
    start, end = stream.record(), stream.record()
    assert not end.is_reached()
    assert end.seconds_since(start) == 0.0
    assert end.is_reached()


def test_views_share_memory_and_keep_it(stub_cuda: StubCuda) -> None:
    stream = open_cuda().default_stream
    whole = stream.upload(X)
    row = whole.view(16, (4,), "int32")
    del whole
    np.testing.assert_array_equal(stream.download(row), X[1])
    assert stub_cuda.live["device memory"] == 1
    with pytest.raises(CudaDeviceError, match=r"^cuda: a view must lie within 16 bytes, got 8 to 24$"):
        row.view(8, (4,), "int32")


def test_copies_between_arrays_of_other_sizes_are_refused(stub_cuda: StubCuda) -> None:
    stream, x = open_cuda().default_stream, open_cuda().empty((2, 4), "int32")
    message = r"^cuda: a copy must be between arrays of 32 bytes, got 48$"
    with pytest.raises(CudaDeviceError, match=message):
        stream.upload(X, x)
    with pytest.raises(CudaDeviceError, match=message):
        stream.download(x, X.copy())


def test_arrays_without_elements_exist(stub_cuda: StubCuda) -> None:
    stream, empty = open_cuda().default_stream, np.zeros((0, 3), np.float16)
    assert stream.download(stream.upload(empty)).shape == (0, 3)


def test_the_smallest_free_buffer_that_fits_is_taken(stub_cuda: StubCuda) -> None:
    context, stream = open_cuda().context, open_cuda().stream()
    staging = Staging(context)
    buffers = [staging.copy_of(np.zeros(size, np.int8)) for size in (300, 100, 200)]
    for buffer in buffers:
        staging.keep(buffer, stream.record())
    stream.synchronize()
    assert staging.copy_of(np.zeros(150, np.int8)).nbytes == 200
