# SPDX-License-Identifier: Apache-2.0
"""The benchmark of quantisation: figures, rows, and the bar for the digits."""

from vdla.benchmarks import quantise
from vdla.networks.registry import NETWORKS


def test_figures(monkeypatch):
    few = {name: NETWORKS[name] for name in ("digits", "deep_q_network") if name in NETWORKS}
    monkeypatch.setattr(quantise, "NETWORKS", few)
    steps = []
    result = quantise.run(lambda what, done, total: steps.append((what, done, total)))
    assert result.figures["worst_loss_points"] <= 0.5
    assert result.figures["mean_snr_db"] > 25
    assert steps[-1] == ("done", 6, 6)
    assert [row["network"] for row in result.rows] == ["digits"] * 5 + ["deep_q_network"]
