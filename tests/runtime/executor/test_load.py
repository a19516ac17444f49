# SPDX-License-Identifier: Apache-2.0
"""`vdla.load` with a device: the words and objects of the rest of the API, and others."""

from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.compiler.templates import dense
from vdla.networks.registry import NETWORKS


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a network with programs for a machine."""
    path = tmp_path_factory.mktemp("load") / "net.vdla"
    images = np.random.default_rng(0).random((4, 1, 8, 8), np.float32)
    vdla.compile(NETWORKS["digits"].build(), "pynq_z1", calibration=images).save(path)
    return path


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a network without programs."""
    path = tmp_path_factory.mktemp("load") / "cpu.vdla"
    vdla.compile(NETWORKS["digits"].build(), "host").save(path)
    return path


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(1).random((1, 1, 8, 8), np.float32)


def test_a_network_runs_on_the_device_of_a_name_or_an_object(network: Path, image: np.ndarray) -> None:
    with vdla.load(network) as model:
        config = model.artifact.config
        wanted = model(image)
    assert config is not None
    with vdla.load(network, device="sim") as model:
        assert np.array_equal(model(image), wanted)
    with vdla.open_device("sim", config) as device, vdla.load(network, device=device) as model:
        assert np.array_equal(model(image), wanted)
        assert model.executor.device is device


def test_a_network_without_programs_runs_on_the_host(on_cpu: Path, image: np.ndarray) -> None:
    with vdla.load(on_cpu, device="host") as one, vdla.load(on_cpu) as other:
        assert np.array_equal(one(image), other(image))


def test_a_network_with_programs_does_not_run_on_the_host(network: Path) -> None:
    with pytest.raises(vdla.Error) as error:
        vdla.load(network, device="host")
    assert str(error.value) == (
        "model digits: device must be one that runs programs for pynq_z1, such as sim, got host; to run on the CPU "
        "alone, compile it for host"
    )


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("simm", "device: name must be one of sim, rtl, pynq, got simm (did you mean sim?)"),
        ("tcp://board:1", "device: address must be one of pynq://HOST:PORT, got tcp://board:1"),
        (3, "device: name must be one of sim, rtl, pynq, got 3"),
    ],
)
def test_a_wrong_device_is_refused_at_once(network: Path, device: object, message: str) -> None:
    with pytest.raises(vdla.devices.DeviceError) as error:
        vdla.load(network, device=device)
    assert str(error.value) == message


def test_a_program_takes_its_device_in_run(tmp_path: Path) -> None:
    program = dense(vdla.Config.preset("tiny"), rows=4, in_features=4, out_features=4).program
    program.save(tmp_path / "p.vdla")
    assert vdla.load(tmp_path / "p.vdla").hash == program.hash
    with pytest.raises(vdla.Error) as error:
        vdla.load(tmp_path / "p.vdla", device="rtl")
    assert str(error.value) == (
        "load: device must be left out for dense, which is a program, got 'rtl': "
        "vdla.run(program, inputs, device='rtl') takes it"
    )
