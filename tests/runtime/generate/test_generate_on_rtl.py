# SPDX-License-Identifier: Apache-2.0
"""Decode steps on the RTL have the simulator's scores and cycles; the datapaths in all rows."""

from dataclasses import replace

import numpy as np
import pytest

import vdla
from vdla.hardware.config import Config
from vdla.networks.decoder import decoder_model, seeded_weights
from vdla.networks.llama_shape import LlamaShape
from vdla.runtime.executor.model import Model
from vdla.runtime.generate.compile_decoder import compile_decoder
from vdla.runtime.generate.generation import DecoderRun
from vdla.runtime.generate.quantise_decoder import quantise_decoder

pytestmark = pytest.mark.rtl
SHAPE = LlamaShape(words=40, width=32, layers=1, heads=2, key_heads=1, hidden=48, positions=32)
MACHINE = replace(Config.preset("tiny"), inp_kib=4, wgt_kib=4, acc_kib=8, out_kib=4)
STEPS = 16


def test_steps_with_four_bit_weights_take_the_cycles_of_the_simulator(tmp_path):
    words = np.random.default_rng(0).integers(0, SHAPE.words, 64).tolist()
    model = decoder_model("small", SHAPE, seeded_weights(SHAPE))
    quantise_decoder(model, words, weights="int4", window=16).save(tmp_path / "int4.onnx")
    machine = vdla.extend(MACHINE, "int4_group")
    with (
        compile_decoder(tmp_path / "int4.onnx", machine, cache=STEPS, chunk=1) as compiled,
        Model(compiled.artifact, "rtl") as on_rtl,
    ):
        one, other = DecoderRun(compiled, "int8"), DecoderRun(on_rtl, "int8")
        for word in words[:STEPS]:
            left, right = one.advance([word]), other.advance([word])
            assert np.array_equal(left.outputs["logits"], right.outputs["logits"])
            cycles = [[step.statistics.total_cycles for step in run.steps if step.statistics] for run in (left, right)]
            assert cycles[0] == cycles[1]
            assert cycles[0]


@pytest.mark.sampled
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_the_datapaths_compute_their_steps(batch):
    machine = vdla.extend(replace(MACHINE, batch=batch, out_kib=8), "int4_group")
    for plug_in in machine.extensions:
        assert vdla.check_datapath(machine, plug_in) > 0
