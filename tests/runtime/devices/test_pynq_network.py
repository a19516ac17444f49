# SPDX-License-Identifier: Apache-2.0
"""Whole networks on a virtual board: the bits of the direct run, from Python and by `vdla run`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.virtual_boards import held_buffers, virtual_board, write_bitstream

from vdla.cli import main
from vdla.compiler.graph.onnx.export import export_model
from vdla.hardware.config import Config
from vdla.networks.decoder import decoder_model, seeded_weights
from vdla.networks.digits import digits
from vdla.networks.digits_images import held_out_digits, training_digits
from vdla.networks.llama_shape import LlamaShape
from vdla.runtime.devices.pynq_device import PynqDevice
from vdla.runtime.executor.model import Model
from vdla.runtime.generate.compile_decoder import compile_decoder
from vdla.runtime.generate.generation import DecoderRun
from vdla.runtime.generate.quantise_decoder import quantise_decoder
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.quantise import quantise

TINY = Config.preset("tiny")


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    """The quantised network for digits, compiled for `tiny`, which runs its convolutions."""
    path = tmp_path_factory.mktemp("model") / "digits.vdla"
    quantised = quantise(digits(batch="batch"), calibration=training_digits().images[:8])
    content = export_model(quantised.graph).SerializeToString()
    compile_network(content, TINY, extents={"batch": 1}, place={"conv2": "vdla", "conv3": "vdla"}).save(path)
    return path


def runs(file, device, count: int) -> list[np.ndarray]:
    with Model.load(file, device) as model:
        return [model(image[None]) for image in held_out_digits().images[:count]]


def test_a_network_on_the_board_gives_the_bits_of_the_direct_run(pynq_board, model_file):
    assert np.array_equal(runs(model_file, "pynq", 3), runs(model_file, "sim", 3))
    assert held_buffers() == []


def test_activations_of_a_network_cross_the_link_once_a_program(pynq_board, model_file):
    """Constants and streams are sent once; then each program sends its activations only."""
    with PynqDevice(TINY) as device, Model.load(model_file, device) as model:
        first, second = held_out_digits().images[:2, None]
        model(first)
        flushed = []
        send = device._memory.flush
        device._memory.flush = lambda addresses: (flushed.append(pending(device)), send(addresses))
        programs = [step for step in model.run({"image": second}).steps if step.statistics is not None]
    assert flushed == [1] * len(programs) and programs


def pending(device) -> int:
    """The buffers that the host wrote and the board has not."""
    return sum(block.newer.value == "host" for block in device._memory._blocks.values())


def test_a_decoder_on_the_board_has_the_scores_and_cycles_of_the_simulator(pynq_board):
    shape = LlamaShape(words=40, width=16, layers=1, heads=2, key_heads=1, hidden=24, positions=16)
    words = np.random.default_rng(0).integers(0, shape.words, 64).tolist()
    quantised = quantise_decoder(decoder_model("small", shape, seeded_weights(shape)), words, window=16)
    with (
        compile_decoder(export_model(quantised.graph), TINY, cache=8, chunk=1) as simulated,
        Model(simulated.artifact, "pynq") as on_board,
    ):
        one, other = DecoderRun(simulated), DecoderRun(on_board)
        for word in words[:3]:
            steps = one.advance([word]), other.advance([word])
            assert np.array_equal(*(step.outputs["logits"] for step in steps))
            assert steps[0].cycles == steps[1].cycles > 0
    assert held_buffers() == []


def test_vdla_run_takes_the_device_and_its_bitstream(pynq_board, model_file, tmp_path, capsys):
    documents = []
    for options in (("sim",), ("pynq", "--bitstream", str(write_bitstream(tmp_path, TINY)))):
        command = ["run", str(model_file), "--random-inputs", "0", "--device", *options, "--json"]
        assert main(command) == 0
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0]["outputs"] == documents[1]["outputs"]
    assert documents[0]["cycles"] == documents[1]["cycles"]


def test_vdla_run_says_which_build_to_accept(pynq_board, model_file, tmp_path, capsys):
    bitstream = write_bitstream(tmp_path, TINY, build="abcdef012345")
    command = ["run", str(model_file), "--random-inputs", "0", "--device", "pynq", "--bitstream", str(bitstream)]
    assert main(command) != 0
    assert "accept_build='abcdef012345'" in capsys.readouterr().err
    assert main([*command, "--accept-build", "abcdef012345"]) == 0


@pytest.mark.rtl
def test_a_network_with_the_rtl_behind_the_board(pynq_board, model_file):
    from pynq.pl_server.remote_device import RemoteDevice

    with (
        virtual_board(TINY, fabric="rtl") as address,
        PynqDevice(TINY, target=RemoteDevice(1, address), timeout_s=300) as device,
    ):
        assert np.array_equal(runs(model_file, device, 1), runs(model_file, "sim", 1))
