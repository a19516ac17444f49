# SPDX-License-Identifier: Apache-2.0
"""`vdla.compile`: programs for accelerators, kernels for CPUs, errors for other targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vdla
from vdla import Config, Kernel, Program, te
from vdla.compiler.target import TARGETS, Target
from vdla.compiler.templates.products import dense
from vdla.hardware.config import PRESETS
from vdla.runtime.compile import CompileError

TINY = Config.preset("tiny")
DENSE = dense(TINY, rows=4, in_features=8, out_features=8)
ADD_ONE = (lambda x: te.create_function([x], [te.compute((4,), lambda i: x[i] + 1, "y")], "add_one"))(
    te.placeholder((4,), "float32", "x")
)


@pytest.mark.parametrize("target", [TINY, "tiny"])
def test_an_accelerator_gets_a_program(target: Any) -> None:
    program = vdla.compile(DENSE.function, target, weights=("weight", "scale"), layouts=DENSE.dimensions)
    assert isinstance(program, Program)
    assert program.hash == DENSE.program.hash


def test_a_template_compiles_to_its_own_program() -> None:
    assert vdla.compile(DENSE, TINY) is DENSE.program


@pytest.mark.parametrize("target", ["host", Target.named("host")])
@pytest.mark.parametrize("what", [ADD_ONE, vdla.default_schedule(ADD_ONE)])
def test_a_cpu_gets_a_kernel(what: Any, target: Any) -> None:
    kernel = vdla.compile(what, target, cached=False)
    assert isinstance(kernel, Kernel)
    assert kernel(np.zeros(4, np.float32)).tolist() == [1, 1, 1, 1]


def test_presets_and_cpu_targets_share_no_name() -> None:
    assert set(PRESETS) & {"host", *TARGETS} == set()


ACCELERATORS = (
    "pynq_z1, pynq_z2, pynq_z1_512, pynq_z1_512x2, pynq_z1_lm, ultra96, zcu104, kv260, kv260_lm, osdi18, tiny, int4, "
    "batch4"
)
CPUS = "host, x86-64, x86-64-avx2, x86-64-avx512, cortex-a9, aarch64, cortex-a53, neoverse-n1"


@pytest.mark.parametrize(("target", "hint"), [
    ("ultra-96", " (did you mean ultra96?)"),
    ("Cortex_A9", " (did you mean cortex-a9?)"),
    ("gpu", ""),
    ("opencI", " (did you mean opencl?)"),
    ("cdua", " (did you mean cuda?)"),
])  # fmt: skip
def test_an_unknown_target_lists_presets_and_cpus(target: str, hint: str) -> None:
    with pytest.raises(CompileError) as failure:
        vdla.compile(ADD_ONE, target)
    grids = "opencl[:NAME] or cuda[:NAME]"
    rule = f"target must be an accelerator ({ACCELERATORS}), a CPU ({CPUS}) or a GPU ({grids})"
    assert str(failure.value) == f"compile: {rule}, got {target!r}{hint}"


@pytest.mark.parametrize(("what", "target", "options", "rule"), [
    (DENSE, "int4", {}, "target must be the configuration of the template (dense was made for tiny), got int4"),
    (DENSE, "host", {}, "target of a template must be an accelerator, got the CPU host"),
    (DENSE, TINY, {"weights": ("weight",)}, "weights must be left out for a template, which has its own"),
    (ADD_ONE, "host", {"weights": ("x",)}, "weights must be left out for the CPU host, got ('x',)"),
    (ADD_ONE, "tiny", {"cached": False}, "cached must be left out for the accelerator tiny, got False"),
])  # fmt: skip
def test_contradictory_arguments_are_refused(what: Any, target: Any, options: dict[str, Any], rule: str) -> None:
    with pytest.raises(CompileError) as failure:
        vdla.compile(what, target, **options)
    assert str(failure.value) == f"compile: {rule}"
