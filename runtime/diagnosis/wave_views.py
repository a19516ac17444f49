# SPDX-License-Identifier: Apache-2.0
"""What a viewer of waveforms shows at first: signals in groups, markers, the cursor.

GTKWave reads it from a save file (.gtkw), Surfer from a file of commands (.sucl). Signals are those
of `vdla.sv` and of the token queues, by their names in the file that Verilator writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from string import ascii_uppercase

from vdla.hardware.config import Config
from vdla.hardware.isa import QUEUES, Unit

MOST_MARKERS = len(ascii_uppercase)
"""As many as GTKWave names with a letter."""
_TOP = "TOP.vdla"
_PIXELS = 800
_COMMENT, _BINARY, _HEXADECIMAL, _DECIMAL = "@200", "@28", "@22", "@24"


@dataclass(frozen=True, slots=True)
class WaveSignal:
    """A signal of the model: its hierarchical name, its bits (0 for a plain wire), its format."""

    name: str
    bits: int = 0
    form: str = _BINARY

    @property
    def with_range(self) -> str:
        """The name as GTKWave has it."""
        return f"{self.name}[{self.bits - 1}:0]" if self.bits else self.name


@dataclass(frozen=True, slots=True)
class WaveView:
    """The view of a file of waveforms from time `first` to `last`.

    `cursor` is the time of the first difference; `markers` have a name without blanks and a time.
    """

    file: str
    first: int
    last: int
    cursor: int
    markers: tuple[tuple[str, int], ...]
    groups: tuple[tuple[str, tuple[WaveSignal, ...]], ...]

    def gtkwave(self) -> str:
        """The save file of GTKWave."""
        return "".join(f"{line}\n" for line in self._gtkwave_lines())

    def surfer(self) -> str:
        """The commands of Surfer."""
        return "".join(f"{line}\n" for line in self._surfer_lines())

    def _gtkwave_lines(self) -> Iterator[str]:
        yield f'[dumpfile] "{self.file}"'
        yield f"[timestart] {self.first}"
        yield "[size] 1400 800"
        yield "[pos] -1 -1"
        zoom = -max(0.0, log2(max(1, self.last - self.first) / _PIXELS))
        times = [time for _, time in self.markers] + [-1] * (MOST_MARKERS - len(self.markers))
        yield f"*{zoom:.6f} {self.cursor} {' '.join(map(str, times))}"
        for letter, (name, _) in zip(ascii_uppercase, self.markers, strict=False):
            yield f"[markername] {letter}{name}"
        yield from ("[treeopen] TOP.", f"[treeopen] {_TOP}.", "[signals_width] 300", "[sst_expanded] 1")
        for title, signals in self.groups:
            yield from (_COMMENT, f"-{title}")
            for signal in signals:
                yield from (signal.form, signal.with_range)

    def _surfer_lines(self) -> Iterator[str]:
        yield f"load_file {self.file}"
        for title, signals in self.groups:
            yield f"divider_add {title}"
            yield from (f"variable_add {signal.name}" for signal in signals)
        for name, time in self.markers:
            yield from (f"cursor_set {time}", f"marker_set {name}")
        yield from (f"cursor_set {self.cursor}", "zoom_fit", "goto_cursor")


def signal_groups(config: Config) -> tuple[tuple[str, tuple[WaveSignal, ...]], ...]:
    """The signals that show what the units do: events, tokens, the memory's channels."""
    units, ports = len(Unit), config.axi_ports
    depth = config.token_depth.bit_length()
    tokens = [
        (f"tokens_{queue.name}", (WaveSignal(f"{_TOP}.u_core.gen_tokens[{number}].u_tokens.level_q", depth, _DECIMAL),))
        for number, queue in enumerate(QUEUES)
    ]
    reads = [
        WaveSignal(f"{_TOP}.m_axi_{name}", ports)
        for name in ("arvalid_o", "arready_i", "rvalid_i", "rready_o", "rlast_i")
    ]
    writes = [
        WaveSignal(f"{_TOP}.m_axi_{name}")
        for name in ("awvalid_o", "awready_i", "wvalid_o", "wready_i", "wlast_o", "bvalid_i")
    ]
    return (
        ("clock", (WaveSignal(f"{_TOP}.clk_i"), WaveSignal(f"{_TOP}.run"))),
        (
            "_".join(["events", *(unit.label for unit in reversed(Unit))]),
            (
                WaveSignal(f"{_TOP}.dispatch"),
                WaveSignal(f"{_TOP}.started", units),
                WaveSignal(f"{_TOP}.ended", units),
                WaveSignal(f"{_TOP}.dispatched", 32, _DECIMAL),
            ),
        ),
        *tokens,
        ("reads", tuple(reads)),
        ("writes", tuple(writes)),
    )


def wave_markers(events: Sequence[tuple[str, int]], first: int, last: int, near: int) -> tuple[tuple[str, int], ...]:
    """The events from one time to another, at most MOST_MARKERS, those near a time first."""
    inside = [(name, time) for name, time in events if first <= time <= last]
    chosen = sorted(inside, key=lambda event: abs(event[1] - near))[:MOST_MARKERS]
    return tuple(sorted(chosen, key=lambda event: event[1]))
