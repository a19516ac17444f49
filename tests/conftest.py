# SPDX-License-Identifier: Apache-2.0
"""Fixtures and settings of all tests: repository, golden files, Hypothesis.

`pytest --update-golden` rewrites golden files and the outputs shown in documents.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING

import pytest
from helpers.seeds import SAMPLE, SAMPLE_VARIABLE, sampled
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from helpers.stub_cuda import StubCuda

    from vdla.compiler import ir
    from vdla.compiler.operators.vdla import Operator
    from vdla.runtime.grid.device_kernel import DeviceKernel
    from vdla.runtime.grid.opencl_devices import OpenClDevice

# No deadlines, since the machine may be busy; a failing example prints how to reproduce it.
settings.register_profile("vdla", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("vdla")

os.environ["VDLA_MODEL_CACHE"] = "0"  # what is tested compiles; so do the processes that tests start
os.environ["VDLA_CERTIFICATE"] = "0"  # what is not about certificates need not wait for them
os.environ[SAMPLE_VARIABLE] = str(SAMPLE)  # the same in all processes

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also what is marked long")
    parser.addoption("--cases", type=int, help="of each test function, the first so many cases")
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files and outputs in documents")


def pytest_report_header() -> str:
    return f"{SAMPLE_VARIABLE}={SAMPLE}"


@pytest.hookimpl(trylast=True)  # after -k and -m: what they choose alone is not left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--long`, tests that are marked `long` do not run; with it, those marked `short` do
    not, since a long one has all of their cases. Of cases that are marked `sampled` some run. With
    `--cases N`, the first N cases of each test function run. Of processes beside each other, none
    has a long test to do when the others are done.
    """
    mark = "short" if config.getoption("--long") else "long"
    chosen = [item for item in items if not item.get_closest_marker(mark)]
    if config.getoption("--cases"):
        from helpers.first_cases import first_cases

        chosen = first_cases(chosen, config.getoption("--cases"))
    else:
        chosen = sampled(chosen)
    kept = set(map(id, chosen))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = chosen
    if "PYTEST_XDIST_WORKER" in os.environ:
        from helpers.slow_first import slow_files_first

        items[:] = slow_files_first(items)


def pytest_collection_finish() -> None:
    """The collector need not look again at thousands of tests, which live to the end, nor, for
    every few hundred objects, at the trees of a compiler, which have no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def poisoned_arenas() -> Iterator[None]:
    """Models overwrite the memory that holds no value, in all tests: mistakes of plans show."""
    from vdla.runtime.executor import model
    from vdla.runtime.executor.executor import Executor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "Executor", partial(Executor, poison=True))
        yield


@pytest.fixture(autouse=True, scope="session")
def patient_work() -> Iterator[None]:
    """Where tests run beside each other, work of some seconds starts no further process: all
    processors are busy, and to import the compiler anew takes longer than most work.
    """
    from vdla.support import parallel

    with pytest.MonkeyPatch.context() as patch:
        if "PYTEST_XDIST_WORKER" in os.environ:
            patch.setattr(parallel, "PATIENCE_S", 10.0)
            from vdla.runtime.devices import rtl_build

            patch.setattr(rtl_build, "JOBS", 1)  # one compiler, which reads the headers once
            patch.setattr(rtl_build, "HEADERS_ONCE", True)
        yield


@pytest.fixture
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture
def operator(request: pytest.FixtureRequest) -> Operator:
    """The operator of the suite of small programs whose name is the parameter; none is compiled
    when tests are collected.
    """
    from vdla.verification.programs import suite

    return suite.operator(request.param)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("name.txt", text)` compares with the file under `golden/` beside the test."""

    def check(name: str, text: str) -> None:
        path = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: run pytest --update-golden and review the file"
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture(scope="session")
def opencl_device() -> OpenClDevice:
    """The OpenCL device of this machine; the test is skipped, with the reason, if there is none."""
    from vdla.runtime.grid.opencl_context import OpenClDeviceError
    from vdla.runtime.grid.opencl_devices import open_opencl

    try:
        return open_opencl()
    except OpenClDeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def plain_opencl() -> Iterator[None]:
    """OpenCL compiles the kernels of a file as they stand: to optimise one, which is not our work,
    takes a CPU some seconds. The tests of operators have their kernels optimised.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
        yield


@pytest.fixture(params=["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def build_grid(request: pytest.FixtureRequest) -> Callable[[ir.Function], DeviceKernel]:
    """Compiles a function for each kind of device, without fusing products and sums; the test is
    skipped, with the reason, where there is no such device.
    """
    from vdla.runtime.grid.cuda_devices import build_cuda, open_cuda
    from vdla.runtime.grid.opencl_devices import build_opencl, open_opencl
    from vdla.runtime.grid.protocol import GridDeviceError

    try:
        device = open_cuda() if request.param == "cuda" else open_opencl()
    except GridDeviceError as error:
        pytest.skip(str(error))
    return partial(build_cuda, device=device.name, contract=False) if request.param == "cuda" else build_opencl


@pytest.fixture(scope="session")
def stub_cuda_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CUDA driver without a device; the test is skipped if there is no C compiler to build it."""
    from helpers.stub_cuda import build_stub

    return build_stub(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def stub_cuda(stub_cuda_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubCuda]:
    """The driver that `vdla` finds on this machine, one without a device, in a state of its own."""
    from helpers.stub_cuda import StubCuda

    from vdla.runtime.grid import cuda_devices as devices

    stub = StubCuda(copy(stub_cuda_library, tmp_path / "libcuda.so"))
    devices.opened.cache_clear()
    monkeypatch.setattr(devices, "cuda_driver", stub.driver)
    yield stub
    devices.opened.cache_clear()
