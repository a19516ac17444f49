# SPDX-License-Identifier: Apache-2.0
"""The worked examples of extensions: how long their files are, how fast they are judged, what they
reach.

Their files lie under `examples`, and the pages of the documentation show them, so this part needs
the repository.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path

import vdla
from vdla.benchmarks.harness import Figures, Section
from vdla.compiler.extensions import extend
from vdla.compiler.te import Tensor
from vdla.hardware.config import Config
from vdla.hardware.fpga.area import Usage, area
from vdla.hardware.fpga.parts import part_of_preset
from vdla.runtime.studies.layers import layers_named, steps_of
from vdla.runtime.studies.verdict import LayerVerdict, evaluate
from vdla.runtime.tune.mapping import map_expression
from vdla.simulator.timing import time_program
from vdla.support.errors import Error
from vdla.support.progress import Progress, numbered, silent, steps

ROOT = Path(vdla.__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_PRESET = "pynq_z1"
_SECONDS = 600.0
_WINDOW = 143  # of the search, long enough for a steady state: 128 x 128 places


class ExampleError(Error, RuntimeError):
    """A page that is missing, or a command that failed."""


def measured(progress: Progress) -> Section:
    """All figures of the examples.

    Raises:
        ExampleError: the repository is missing, or a command failed.
    """
    with tempfile.TemporaryDirectory(prefix="vdla-examples-") as name:
        folder = Path(name)
        written = {page: write_file(page, folder) for page in pages()}
        lines = {f"{page}_lines": _lines(path) for page, path in written.items()}
        step = numbered(progress, 4)
        step("int4 on ResNet-18")
        cold_s, cached_s = _verdict_seconds(written["int4"])
        step("sad")
        figures = {**lines, "int4_cold_s": cold_s, "int4_cached_s": cached_s}
        figures["sad_per_cycle"] = differences_a_cycle(written["sad"], _WINDOW)
        figures |= depthwise_speedups(written["depthwise"], progress)
        step("lut: synthesis")
        used = datapath_usage(written["lut"], "ext_lut")
        figures |= {"lut_luts": used.lut, "lut_dsp": used.dsp, "lut_bram": used.bram36}
        step("depthwise with RTL and area")
        return Section({**figures, "depthwise_full_s": _full_seconds(written["depthwise"])})


def pages() -> list[str]:
    """The examples that have a page: NAME of each docs/extension-NAME.md, which shows a NAME.py."""
    result = [path.stem.removeprefix("extension-") for path in sorted(DOCS.glob("extension-*.md"))]
    if not result:
        raise ExampleError(f"evaluate: the pages of the examples must be in {DOCS}, got none; run it in the repository")
    return result


def write_file(name: str, folder: Path) -> Path:
    """The extension of a page as a file below `folder`, beside all others of its example, whose
    names those of other examples have too.
    """
    page = (DOCS / f"extension-{name}.md").read_text(encoding="utf-8")
    shown = re.search(rf'title="(examples/\w+)/{name}\.py"', page)
    if shown is None:
        raise ExampleError(f"evaluate: page extension-{name}.md must show {name}.py, got none")
    beside = folder / name
    beside.mkdir(exist_ok=True)
    for path in (ROOT / shown[1]).iterdir():
        if path.is_file():
            shutil.copy(path, beside)
    return beside / f"{name}.py"


def _lines(source: Path) -> int:
    """Lines of an extension, with those of the file of its datapath."""
    files = [path for path in (source, source.with_suffix(".sv")) if path.is_file()]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def _verdict_seconds(source: Path) -> tuple[float, float]:
    """Seconds of the command on all layers of ResNet-18: the first time, and again.

    The seed is part of what results are kept by, so a new one is a cold start.
    """
    seed = time.time_ns() // 1000
    words = ["evaluate", str(source), "--model", "resnet18", "--seed", str(seed), "--workers", "2", "--json", "-"]
    return _seconds(words), _seconds(words)


def _full_seconds(source: Path) -> float:
    """Seconds until the area of an extension is known and the generated tests, which build its RTL,
    have passed: two commands at once.

    Both are kept by the text of the datapath, so a new one is a cold start.
    """
    datapath = source.with_suffix(".sv")
    text = f"{datapath.read_text(encoding='utf-8')}// {time.time_ns()}\n"
    datapath.write_text(text, encoding="utf-8")
    machine = ["--preset", _PRESET]
    commands = (["selftest", str(source), "--rtl", *machine], ["area", "--extension", str(source), *machine])
    start = time.perf_counter()
    with ThreadPoolExecutor(len(commands)) as both:
        list(both.map(_seconds, commands))
    return round(time.perf_counter() - start, 2)


def _seconds(words: Sequence[str]) -> float:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "vdla", *words], capture_output=True, text=True, timeout=_SECONDS)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise ExampleError(f"evaluate: vdla {words[0]} must succeed, got exit code {done.returncode}: {done.stderr}")
    return round(seconds, 2)


def datapath_usage(source: Path, module: str) -> Usage:
    """What a datapath takes of the FPGA as a unit of the machine."""
    config = extend(Config.preset(_PRESET), str(source))
    result = area(config, part_of_preset(_PRESET), silent)
    return next(unit.usage for unit in result.units if unit.module == module)


def differences_a_cycle(source: Path, window: int) -> float:
    """Differences in a cycle in which the unit computes, of 16 blocks searched in a window."""
    config = extend(Config.preset(_PRESET), str(source))
    search = _search(source, window)
    stats = time_program(map_expression(search, config).program, config)
    return round(steps_of(search) / stats.counters["compute"]["busy"], 1)


def _search(source: Path, window: int) -> Tensor:
    """The layer of the user's file, for another window."""
    names: dict[str, object] = {}
    exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), names)
    matching = names["matching"]
    assert callable(matching), "the page defines it"
    result: Tensor = matching(blocks=16, size=16, window=window)
    return result


# --- depthwise ------------------------------------------------------------------------------------
# The depthwise example on the layers of MobileNet: its speed-up, and the most that it could be.
#
# No program of any instruction takes fewer cycles than to read the operands of a layer once, or to
# write its results; the speed-up of such a program is the bound.


DEPTHWISE_LAYERS = ("D1-D9",)
PRESETS = ("pynq_z1", "ultra96")


def depthwise_speedups(source: Path, progress: Progress) -> Figures:
    """For each preset the geometric means over layers of cycles before over after, and of their
    bounds.
    """
    figures = {}
    for preset in steps(progress, PRESETS):
        layers = evaluate(str(source), layers_named(DEPTHWISE_LAYERS), Config.preset(preset)).layers
        figures[f"depthwise_speedup_{preset}"] = _geomean([layer.speedup or 1.0 for layer in layers])
        figures[f"depthwise_bound_{preset}"] = _geomean([_speedup_bound(layer) for layer in layers])
    return figures


def _speedup_bound(layer: LayerVerdict) -> float:
    assert layer.before.cost is not None, "every machine has a vector unit"
    return layer.before.cost.cycles / layer.least_cycles


def _geomean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return round(float(prod(values) ** (1 / len(values))), 3)
