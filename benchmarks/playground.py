# SPDX-License-Identifier: Apache-2.0
"""The playground: seconds from the load of its page to the first exact cycle count; download size.

Every opening is one of a new browser, without a cache, from a server on this machine. The first
expression is run as soon as its page is there. All times are wall-clock, medians.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from vdla.benchmarks.chromium import Page, open_page
from vdla.benchmarks.harness import BenchmarkResult, Figures, receipt
from vdla.benchmarks.web_folder import served
from vdla.hardware.config import Config
from vdla.playground.build import build_playground
from vdla.support.progress import Progress, silent, steps

OPENINGS = 5
WIDTH = 1400
_FIRST_COUNT = r"/\d cycles/.test(document.getElementById('output').textContent)"
_SECONDS = "performance.now() / 1000"  # since the navigation began


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Times and size of the page.

    Raises:
        BrowserError: Chromium is missing, or the page fails.
        PlaygroundError: npm is missing, or its packages cannot be had.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_playground(folder)
        with served(folder) as address:
            samples = [_sample(address) for _ in steps(progress, range(OPENINGS))]
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    figures = {figure: statistics.median(sample[figure] for sample in samples) for figure in samples[0]}
    rows = [{"opening": number, **sample} for number, sample in enumerate(samples)]
    command = f"vdla bench playground --seed {seed} --json -"
    receipts = receipt(Config.preset("pynq_z1"), [], seed, command)
    return BenchmarkResult("playground", {**figures, "download_mb": size}, rows, receipts)


def _sample(address: str) -> Figures:
    with open_page() as page:
        return first_count(page, f"{address}/index.html")


def first_count(page: Page, address: str) -> Figures:
    """Open a page, run its first expression, and wait for the cycles that it prints."""
    page.visit(address, WIDTH)
    page.until("window.playground")
    page.value("document.getElementById('run').click()")
    page.until("playground.ready")
    ready: float = page.value(_SECONDS)
    page.until(_FIRST_COUNT)
    return {"ready_s": ready, "first_count_s": page.value(_SECONDS)}
