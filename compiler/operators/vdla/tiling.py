"""The search for tile sizes: the lowest estimate of cycles that fits the buffers.

The estimate counts what a decoupled machine cannot hide: the loads of the first tile, the store of
the last, and in between the slower of computing and moving each chunk. It only ranks candidates;
exact cycles come from the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.compiler.operators.vdla.packing import blocks
from vdla.hardware import timing
from vdla.hardware.config import Config
from vdla.support.integers import is_int, to_python

_LOOPS = ("chunks", "cols", "rows", "batches", "groups")  # the tile loops, innermost first


@dataclass(frozen=True, slots=True)
class TilingProblem:
    """An operator in blocks: its output, the taps of its kernel, the input window of a tile.

    `row_step`, `row_span`: n output rows need (n - 1) * row_step + row_span input rows; columns
    likewise. `weights`:
    entries for one output and one input block. `separate`: an output block reads only the input
    block of its channels. `phases`: results at one position of the tile loops. `inputs`: windows
    read, each of `unit` entries per pixel; `through_acc`: windows are held in the accumulator.
    `lanes`: entries of the scale for one output block. `kept`: the share of the taps that do not
    read padding, which is skipped; `cuts`: borders between rows, and between columns, of which
    different taps are skipped. `chained`: another operator hides the loads of the first tile.
    """

    batches: int
    out_blocks: int
    in_blocks: int
    rows: int
    cols: int
    taps: int
    row_step: int
    row_span: int
    col_step: int
    col_span: int
    weights: int
    raw: bool = False
    separate: bool = False
    phases: int = 1
    inputs: int = 1
    unit: int = 1
    through_acc: bool = False
    lanes: int = 1
    kept: float = 1.0
    cuts: tuple[int, int] = (0, 0)
    chained: bool = False

    def window(self, rows: int, cols: int) -> int:
        """Input entries, of one channel block, for a tile of output."""
        pixels = ((rows - 1) * self.row_step + self.row_span) * ((cols - 1) * self.col_step + self.col_span)
        return pixels * self.inputs * self.unit

    @property
    def window_size(self) -> tuple[int, int]:
        """Input rows and columns for all results."""
        return (self.rows - 1) * self.row_step + self.row_span, (self.cols - 1) * self.col_step + self.col_span

    def window_blocks(self, tiling: Tiling) -> int:
        """Channel blocks of input that a tile holds at once."""
        return tiling.out_blocks if self.separate else tiling.in_blocks

    def results(self, tiling: Tiling) -> int:
        """Results of one tile in one output block."""
        return tiling.rows * tiling.cols * self.phases


@dataclass(frozen=True, slots=True)
class Tiling:
    """Sizes of one tile in blocks and pixels.

    With `keep_weights`, the weights of a group of output blocks stay on the chip for all its tiles.
    The iterations of the loop `threads_over` are dealt to `threads` virtual threads.
    """

    rows: int
    cols: int
    out_blocks: int
    in_blocks: int
    keep_weights: bool
    threads: int
    threads_over: str

    def __str__(self) -> str:
        kept = ", weights kept on chip" if self.keep_weights else ""
        return (
            f"{self.rows}x{self.cols} pixels, {self.out_blocks} output and {self.in_blocks} input blocks{kept}, "
            f"{self.threads} virtual thread{'s' * (self.threads > 1)} over {self.threads_over}"
        )


@dataclass(frozen=True, slots=True)
class _Counts:
    """Iterations of the tile loops."""

    groups: int
    rows: int
    cols: int
    chunks: int

    @property
    def tiles(self) -> int:
        """Tiles of output in one group of output blocks."""
        return self.rows * self.cols


def best_tiling(config: Config, problem: TilingProblem, threads: int, name: str = "tiling") -> Tiling:
    """The tiling with the lowest estimate.

    It has fewer than `threads` virtual threads if the buffers cannot hold that many tiles.

    Raises:
        TemplateError: the smallest tile does not fit the buffers.
    """
    best = min(
        (
            (estimate(config, problem, tiling), order, tiling)
            for order, tiling in enumerate(tilings(config, problem, threads))
        ),
        default=None,
    )
    if best is None and threads > 1:
        return best_tiling(config, problem, threads - 1, name)
    if best is None:
        raise TemplateError(
            f"{name}: one pixel, one output block and one input block must fit the buffers inp={config.inp_depth} "
            f"wgt={config.wgt_depth} scl={config.scl_depth} acc={config.acc_depth} out={config.out_depth} entries, got "
            f"a window of {problem.window(1, 1)}, {problem.weights} weights, {problem.lanes} lanes, "
            f"{problem.phases} sums"
        )
    return best[2]


def choose_tiling(config: Config, problem: TilingProblem, threads: int, given: Tiling | None, name: str) -> Tiling:
    """The given tiling with at most one thread per iteration, or by default the best one.

    Raises:
        TemplateError: the given tiling is invalid or does not fit the buffers, or no tiling fits.
    """
    if given is None:
        return best_tiling(config, problem, threads, name)
    given = _check(problem, given, name)
    over = given.threads_over
    iterations = problem.batches if over == "batches" else getattr(counts(problem, given), over)
    used = replace(given, threads=min(given.threads, iterations))
    if not fits(config, problem, used):
        raise TemplateError(f"{name}: tiling must fit the buffers, got {given}")
    return used


def _check(problem: TilingProblem, given: Tiling, name: str) -> Tiling:
    """The tiling in Python integers, which must suit the operator."""
    if not isinstance(given, Tiling):
        raise TemplateError(f"{name}: tiling must be a Tiling, got {given!r}")
    given = replace(given, **{field.name: to_python(getattr(given, field.name)) for field in fields(given)})
    for what in ("rows", "cols", "out_blocks", "in_blocks"):
        size, most = getattr(given, what), getattr(problem, what)
        if not is_int(size) or not 1 <= size <= most:
            raise TemplateError(f"{name}: {what} of the tiling must be an integer from 1 to {most}, got {size!r}")
    loops = _LOOPS[1:] if problem.separate else _LOOPS
    if given.threads_over not in loops:
        rule = f"threads_over of the tiling must be one of {', '.join(loops)}"
        raise TemplateError(f"{name}: {rule}, got {given.threads_over!r}")
    if not is_int(given.threads) or given.threads < 1:
        raise TemplateError(f"{name}: threads of the tiling must be at least 1, got {given.threads!r}")
    if not isinstance(given.keep_weights, bool):
        raise TemplateError(f"{name}: keep_weights of the tiling must be True or False, got {given.keep_weights!r}")
    return given


def tilings(config: Config, problem: TilingProblem, threads: int) -> Iterator[Tiling]:
    """All tilings that fit the buffers."""
    most = max(config.depths)
    row_sizes, out_sizes = _sizes(problem.rows, most), _sizes(problem.out_blocks, most)
    for in_blocks in _sizes(problem.in_blocks, most):
        for cols in _sizes(problem.cols, most):
            for rows in row_sizes:
                if in_blocks * problem.window(rows, cols) > max(config.inp_depth, config.acc_depth):
                    break
                for out_blocks in out_sizes:
                    if out_blocks * rows * cols > config.acc_depth or out_blocks * problem.lanes > config.scl_depth:
                        break
                    for keep in (True, False):
                        tiling = _with_threads(problem, rows, cols, out_blocks, in_blocks, keep, threads)
                        if fits(config, problem, tiling):
                            yield tiling


def _with_threads(
    problem: TilingProblem, rows: int, cols: int, out_blocks: int, in_blocks: int, keep: bool, threads: int
) -> Tiling:
    """The tiling with its virtual threads over the innermost tile loop that iterates."""
    sizes = (in_blocks, cols, rows, 1, out_blocks)
    extents = (problem.in_blocks, problem.cols, problem.rows, problem.batches, problem.out_blocks)
    iterations = dict(zip(_LOOPS, map(blocks, extents, sizes), strict=True))
    over = next((name for name, count in iterations.items() if count > 1), "chunks")
    return Tiling(
        rows=rows,
        cols=cols,
        out_blocks=out_blocks,
        in_blocks=in_blocks,
        keep_weights=keep,
        threads=min(threads, iterations[over]),
        threads_over=over,
    )


def _sizes(extent: int, most: int) -> list[int]:
    """Candidate tile sizes up to `most`: the smallest size for each number of tiles."""
    return [size for size in range(1, min(extent, most) + 1) if size == blocks(extent, blocks(extent, size))]


def counts(problem: TilingProblem, tiling: Tiling) -> _Counts:
    """The iterations of each tile loop."""
    return _Counts(
        blocks(problem.out_blocks, tiling.out_blocks),
        blocks(problem.rows, tiling.rows),
        blocks(problem.cols, tiling.cols),
        blocks(problem.in_blocks, tiling.in_blocks),
    )


def fits(config: Config, problem: TilingProblem, tiling: Tiling) -> bool:
    """Whether every tile fits its buffer, with a copy for each virtual thread."""
    results = tiling.out_blocks * problem.results(tiling)
    copies = tiling.threads if tiling.threads_over != "chunks" else 1
    window = problem.window_blocks(tiling) * problem.window(tiling.rows, tiling.cols) * tiling.threads
    weights = tiling.out_blocks * problem.weights * (problem.in_blocks if tiling.keep_weights else tiling.in_blocks)
    weight_copies = tiling.threads if not tiling.keep_weights or tiling.threads_over == "groups" else 1
    slot = config.acc_bits // config.out_bits if problem.raw else 1
    lanes = tiling.out_blocks * problem.lanes * (tiling.threads if tiling.threads_over == "groups" else 1)
    return (
        (0 if problem.through_acc else window) <= (config.inp_depth // 2 if problem.chained else config.inp_depth)
        and weights * weight_copies <= config.wgt_depth
        and results * copies + (window if problem.through_acc else 0) <= config.acc_depth
        and results * copies * slot <= config.out_depth
        and lanes <= config.scl_depth
    )


def all_lanes_fit(config: Config, problem: TilingProblem) -> bool:
    """Whether the scale buffer holds the lanes of all output blocks."""
    return problem.out_blocks * problem.lanes <= config.scl_depth


def all_weights_fit(config: Config, problem: TilingProblem) -> bool:
    """Whether the weight buffer holds the weights of all output blocks."""
    return problem.out_blocks * problem.in_blocks * problem.weights <= config.wgt_depth


def estimate(config: Config, problem: TilingProblem, tiling: Tiling) -> float:
    """A rough estimate of the cycles of the operator."""
    n = counts(problem, tiling)
    beat = config.dram.beat_cycles
    inp = config.inp_entry_bytes // config.axi_bytes * beat
    wgt = config.wgt_entry_bytes // config.axi_bytes * beat
    out = (config.acc_entry_bytes if problem.raw else config.out_entry_bytes) // config.axi_bytes * beat
    fetch = 64 // config.axi_bytes * beat
    pieces = (n.rows + problem.cuts[0]) * (n.cols + problem.cuts[1]) / n.tiles
    step = problem.results(tiling) * tiling.in_blocks * problem.taps * problem.kept + pieces * timing.ISSUE_OVERHEAD
    compute = tiling.out_blocks * step
    window: float = problem.window_blocks(tiling) * (problem.window(tiling.rows, tiling.cols) * inp + tiling.rows)
    if problem.through_acc:
        compute += window + config.dram.read_latency
    if problem.cuts != (0, 0):  # a padded load does not begin before the end of the one before it
        inner = max(0, n.rows - 2) * max(0, n.cols - 2)
        window += config.dram.read_latency * (1 - inner / n.tiles)
    weights = tiling.in_blocks * problem.weights * wgt + fetch
    all_weights = tiling.out_blocks * weights
    chunk = window + (0 if tiling.keep_weights else all_weights) + tiling.out_blocks * pieces * fetch
    results = problem.results(tiling) * out
    store = tiling.out_blocks * results / n.chunks
    total = problem.batches * n.groups * n.tiles * n.chunks
    first = 0 if problem.chained else window + weights + 3 * config.dram.read_latency
    last = results + config.dram.write_latency
    if tiling.threads == 1:
        return first + total * (compute + chunk + store) + last
    # One thread loads a chunk, then computes on it; the others run meanwhile.
    turn = compute + chunk + config.dram.read_latency + timing.compute_depth(config)
    steady = max(compute, chunk, store, turn / tiling.threads)
    if n.chunks % tiling.threads and tiling.threads_over == "chunks":  # the last turn cannot fuse its epilogue
        steady += tiling.out_blocks * problem.results(tiling) / n.chunks
    reload = n.groups * n.chunks * max(0, all_weights + window - compute) if tiling.keep_weights else 0
    waiting = tiling.keep_weights and not all_weights_fit(config, problem)
    bubbles = (n.groups - 1) * (all_weights if waiting else 0)
    if not (problem.raw or all_lanes_fit(config, problem)):
        bubbles += (n.groups - 1) * config.dram.read_latency
    return first + total * steady + reload + bubbles + last
