# SPDX-License-Identifier: Apache-2.0
"""The viewer: first paint, steps a second, file size, of ResNet-18 and of 10^6 instructions.

A page is opened in headless Chromium. First paint is the time from the start of the navigation to
the first picture of the whole run. A step is a key, for the next cycle or the next instruction; it
is over when its frame is drawn. Steps are measured in the whole run and in a close-up, whose window
moves. All times are wall-clock, medians of several openings.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vdla.benchmarks.chromium import Page, open_page
from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, SubjectError, receipt
from vdla.hardware.config import Config
from vdla.networks.registry import NETWORKS
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.quantise import quantise
from vdla.support.progress import Progress, silent, steps
from vdla.support.suggest import one_of
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program
from vdla.viewer.page import viewer_page
from vdla.viewer.recording import ViewedProgram, recording
from vdla.viewer.view import network_parts, simulated

PRESET = "pynq_z1"
ROWS = 5312  # of the product whose program has a million instructions
OPENINGS = 5
STEPS = 60
WIDTH = 1400
_READY = "window.viewer?.loaded && viewer.timeline.heat"
_STEPS = """(async () => {
  const begin = performance.now();
  for (let i = 0; i < %d; i++) {
    const frame = viewer.frames;
    dispatchEvent(new KeyboardEvent("keydown", { key: i %% 2 ? "n" : "ArrowRight" }));
    while (viewer.frames === frame) await new Promise(requestAnimationFrame);
  }
  return 1000 * %d / (performance.now() - begin);
})()"""


def run(progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = ()) -> BenchmarkResult:
    """The three figures of the pages of `subjects`, by default of all.

    Raises:
        SubjectError: a subject that does not exist.
        BrowserError: Chromium is missing.
    """
    unknown = next((name for name in subjects if name not in _SUBJECTS), None)
    if unknown is not None:
        raise SubjectError(f"bench view: subject must be {one_of(unknown, _SUBJECTS)}")
    config = Config.preset(PRESET)
    figures: Figures = {}
    rows: list[Row] = []
    programs = []
    with tempfile.TemporaryDirectory() as folder, open_page() as page:
        for name in steps(progress, tuple(subjects) or tuple(_SUBJECTS)):
            viewed, file = _SUBJECTS[name](config, seed), Path(folder) / f"{name}.html"
            file.write_text(viewer_page([recording(name, viewed)]), encoding="utf-8")
            measured = measure(page, file, OPENINGS)
            figures |= {f"{name}_{figure}": value for figure, value in measured.items()}
            count = sum(len(one.program) for one in viewed)
            rows.append({"page": name, "instructions": count, **measured})
            programs += [one.program for one in viewed]
    command = " ".join(["vdla bench view", *subjects, f"--seed {seed} --json -"])
    return BenchmarkResult("view", figures, rows, receipt(config, programs, seed, command))


def measure(page: Page, file: Path, openings: int, count: int = STEPS) -> Figures:
    """The figures of a page."""
    samples: list[Figures] = []
    for _ in range(openings):
        page.open(file, WIDTH)
        page.until(_READY)
        sample = {"first_paint_s": page.value("viewer.firstPaint") / 1000}
        sample["steps_per_s"] = page.value(_STEPS % (count, count))
        page.press("z")
        sample["close_steps_per_s"] = page.value(_STEPS % (count, count))
        samples.append(sample)
    medians = {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}
    return {**medians, "file_mb": file.stat().st_size / 1e6}


def _resnet18(config: Config, seed: int) -> Sequence[ViewedProgram]:
    """All programs of the network, with random weights."""
    network = NETWORKS["resnet18"]
    model = network.build(seed=seed)
    data = [network.inputs(model, seed=seed + 1 + i) for i in range(2)]
    with compile_network(quantise(model, calibration=data, method="minmax").graph, config) as compiled:
        return network_parts(compiled.artifact)


def _million(config: Config, seed: int) -> Sequence[ViewedProgram]:
    """A product in tiles of a single entry."""
    columns = config.block_out * config.scl_depth
    return [simulated(gemm_program(GemmTiling(config, ROWS * config.batch, columns, config.block_in, 1, 1)))]


_SUBJECTS: Mapping[str, Callable[[Config, int], Sequence[ViewedProgram]]] = {"resnet18": _resnet18, "million": _million}
