# SPDX-License-Identifier: Apache-2.0
"""Elements of few bits side by side in those of a buffer: numbers, unknowns, whole programs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import default_rng

import vdla
from vdla import Config
from vdla.benchmarks.certify_faults import planted_faults
from vdla.benchmarks.certify_plug_ins import grouped_layer
from vdla.compiler.certificates.elementwise import numbers, unknowns
from vdla.compiler.certificates.packed_elements import PackedElements
from vdla.compiler.certificates.symbols import CertificateError
from vdla.compiler.extensions import extend
from vdla.compiler.plug_ins import int4_group
from vdla.hardware.numerics import pack_elements


@pytest.mark.parametrize("bits", [2, 4])
def test_numbers_are_packed_as_in_memory(bits: int) -> None:
    half = 1 << (bits - 1)
    elements = np.random.default_rng(0).integers(-half, half, 64)
    packed = PackedElements()
    made = packed.pack(numbers(elements), bits, 8)
    assert made["low"].astype(np.int8).view(np.uint8).tolist() == pack_elements(elements, bits).tolist()
    assert packed.parts(made.reshape(2, -1), bits, 8)["low"].reshape(-1).tolist() == elements.tolist()


def test_parts_of_unknown_elements_are_these_and_others_have_none() -> None:
    packed, elements = PackedElements(), unknowns("x", (12,), "int4", 0)
    mixed = np.concatenate([elements, numbers(np.arange(-4, 4))])
    made = packed.pack(mixed, 4, 8)
    places = np.array([[3, 0], [8, 5]])
    parts = packed.parts(made[places], 4, 8).reshape(2, 2, 2)
    assert (parts["value"] == mixed.reshape(-1, 2)[places]["value"]).all()
    with pytest.raises(CertificateError) as caught:
        packed.parts(unknowns("y", (1, 3), "int8", 0), 4, 8)
    assert str(caught.value) == "certify: operands of 4 bits must be elements of a tensor of 4 bits, got others"
    with pytest.raises(CertificateError) as caught:
        packed.pack(elements[:3], 4, 8)
    assert str(caught.value) == "certify: elements of 4 bits must fill those of 8, got 3"


def test_programs_of_weights_of_four_bits_are_certified() -> None:
    layer = grouped_layer(rows=3, features=70, outputs=21)
    (program, *_) = int4_group.programs(layer, extend(Config.preset("pynq_z1"), "int4_group"))
    assert vdla.certify(program, layer.output).holds
    faults = list(planted_faults(program.program, "micro-op", 4, default_rng(0)))
    assert faults
    assert not any(vdla.certify(program, layer.output, program=fault.program).holds for fault in faults)
