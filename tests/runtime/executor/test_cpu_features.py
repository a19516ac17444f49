# SPDX-License-Identifier: Apache-2.0
"""Kernels for another CPU are refused before they run into an illegal instruction."""

import numpy as np
import pytest

from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.bind_kernels import require_features
from vdla.runtime.native import NativeError
from vdla.runtime.network.compile_network import compile_network
from vdla.support import processor

OLD = "flags\t\t: fpu sse sse2 pni ssse3 sse4_1 sse4_2 popcnt\n"


@pytest.fixture
def old_cpu(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(OLD)
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")


def test_a_model_for_a_newer_cpu_is_refused(old_cpu):
    network = NETWORKS["digits"]
    source = network.build()
    model = compile_network(source, "x86-64-avx2")
    with pytest.raises(NativeError) as error:
        model.run(network.inputs(source))
    got = "kernels compiled for x86-64-v3; this one has no avx, avx2, bmi, bmi2, f16c, fma"
    assert str(error.value) == f"model digits: kernels must be for this CPU, got {got}"


@pytest.mark.parametrize("features", [("sse4.1", "popcnt", "sse3"), ("64bit", "cx16"), ()])
def test_features_that_a_cpu_has_or_that_nobody_tells_pass(old_cpu, features):
    require_features("model m", "old", "x86_64-unknown-linux-gnu", features)


def test_other_architectures_are_told_by_their_objects(old_cpu):
    require_features("model m", "cortex-a9", "armv7a-unknown-linux-gnueabihf", ("neon", "avx"))


def test_this_cpu_has_what_kernels_are_compiled_for():
    network = NETWORKS["digits"]
    source = network.build()
    assert np.isfinite(compile_network(source).run(network.inputs(source)).outputs["logits"]).all()
