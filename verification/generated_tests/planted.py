# SPDX-License-Identifier: Apache-2.0
"""Planted faults: those in the RTL of extensions, and whether the generated tests catch a fault.

A fault in the RTL edits the text of a datapath, or the text generated around it. Edits match text
that any extension may have; where an edit changes nothing, the fault does not apply. The simulator
stays as it is, so that the RTL is the view that must be named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from unittest.mock import patch

from vdla.compiler.extensions import extend
from vdla.hardware.config import Config
from vdla.hardware.generate import extension_files
from vdla.verification.generated_tests.check import GeneratedTests
from vdla.verification.generated_tests.faults import Fault
from vdla.verification.generated_tests.samples import SAMPLES
from vdla.verification.generated_tests.views import View
from vdla.verification.programs.device_pair import rtl_pair

Edit = Callable[[str], str]
GENERATED = {"package": "render_extension_package", "slot": "render_datapaths"}
"""The generated texts, and the functions of `extension_files` that give them."""


@dataclass(frozen=True, slots=True)
class RtlFault:
    """A kind of fault: an edit of the first `datapath` that it changes, of the package or slot."""

    name: str
    where: str
    edit: Edit

    def machine(self, config: Config) -> Config:
        """The machine with the datapath edited, unchanged if the fault is not in a datapath."""
        if self.where in GENERATED:
            return config
        for number, plug_in in enumerate(config.extensions):
            datapath = plug_in.datapath
            if datapath is not None and self.edit(datapath.text) != datapath.text:
                broken = replace(plug_in, datapath=replace(datapath, text=self.edit(datapath.text)))
                return replace(
                    config, extensions=(*config.extensions[:number], broken, *config.extensions[number + 1 :])
                )
        raise AssertionError(f"fault {self.name} must fit some datapath")

    @contextmanager
    def planted(self) -> Iterator[None]:
        """While the RTL is built: the generated text edited."""
        if self.where not in GENERATED:
            yield
            return
        name = GENERATED[self.where]
        original: Callable[[Config], str] = getattr(extension_files, name)

        def edited(config: Config) -> str:
            text = self.edit(original(config))
            assert text != original(config), f"fault {self.name} must change the {self.where}"
            return text

        with patch.object(extension_files, name, edited):
            yield


def _once(pattern: str, instead: str) -> Edit:
    return lambda text: re.sub(pattern, instead, text, count=1)


_LATE = r"""logic [$bits(result_o)-1:0] late;
  always_ff @(posedge clk_i) late <= \1;
  assign result_o = late;"""

_STALE = r"if ($past(\1_valid_i, 2)) \2[$past(\3, 2)][o] <= $past(\4, 2);"
_UPDATE = r"if \((\w+)_valid_i\) (\w+)\[(\w+)\]\[o\] <= ([^;]*\2[^;]*);"
"""A row of private state that becomes something else."""

_FAULTS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "datapath": (
        ("result a cycle late", r"assign result_o = ([^;]+);", _LATE),
        ("result a cycle early", r"always_ff @\(posedge clk_i\) (\S+) <=", r"always_comb \1 ="),
        ("sign of an operand lost", r"32'\(signed'\((src_i[^)]*)\)\)", r"32'(unsigned'(\1))"),
        ("element of the next lane", r"src_i\[b\]\[o\]", "src_i[b][(o + 1) % BlockOut]"),
        ("element of the next row of weights", r"wgt_i\[o\]", "wgt_i[(o + 1) % BlockOut]"),
        ("another operator", r"(_i\S*) \+ ", r"\1 - "),
        ("arithmetic shift without sign", ">>>", ">>"),
        ("last term left out", "i < BlockIn", "i < BlockIn - 1"),
        ("last entry of a group left out", r"i < (\d)\*BlockIn", r"i < (\1-1)*BlockIn"),
        ("state changed two cycles late", _UPDATE, _STALE),
        ("state not changed", _UPDATE, r"if (1'b0) \2[\3][o] <= \4;"),
        ("state changed without a step", _UPDATE, r"if (\1_valid_i || \1_begin_i) \2[\3][o] <= \4;"),
        ("state changed in another row", _UPDATE, r"if (\1_valid_i) \2[\3 ^ 1][o] <= \4;"),
        ("state read in another row", r"(<= \w+\[b\]\[o\] \+ .*\[\w+_row_i)\]", r"\1 ^ 1]"),
        ("state of another lane", r"(\w+_row_i\])\[o\]\)", r"\1[(o + 1) % BlockOut])"),
        ("stage with another operator", r"(tint_x_i\S*) \+", r"\1 -"),
        ("array not taken", r"array_valid_o = valid_i", "array_valid_o = 1'b0"),
        ("weights of one batch row in all", r"wgt_i\[\(o\+b\)%BlockOut\]", "wgt_i[o]"),
    ),
    "package": (
        ("sum replaced by a maximum", "op: VecAdd", "op: VecMax"),
        ("sum not accumulated", "accumulates: 1'b1", "accumulates: 1'b0"),
        ("old entry not read", "reads_old: 1'b1", "reads_old: 1'b0"),
        ("latency of the slot a cycle less", r"LatencyBits'\(3'sd3\)", "LatencyBits'(3'sd2)"),
        ("latency without its field", r"LatencyBits'\(\(5'sd1 \+ [^;]*;", "LatencyBits'(1);"),
        ("a cycle more from step to step", r"StepBits'\((?!0\))", "StepBits'(1 + "),
        ("own fields a bit off", r"word\[(\d+)\+:OwnBits\]", r"word[\1-1+:OwnBits]"),
        ("group of sources half as large", "src_scale: 2'd2", "src_scale: 2'd1"),
        ("group of weights an entry", "wgt_scale: 2'd1", "wgt_scale: 2'd0"),
        ("instruction of state that writes sums", "writes_sums: 1'b0", "writes_sums: 1'b1"),
        ("latency of the stage a cycle less", r"StageLatency = (\d+)", r"StageLatency = \1-1"),
        ("array not lent", "ArrayIsLent = 1'b1", "ArrayIsLent = 1'b0"),
    ),
    "slot": (
        ("array taken without a step", "array_valid_o = [^;]+;", "array_valid_o = 1'b1;"),
        ("source and old entry exchanged", r"\.src_i\(sum_i\)", ".src_i(old_i)"),
        ("result of another extension", r"(\(\d+\): results_o = result_)\w+;", r"\1blend;"),
        ("a field at another place", r"step_q\.own\[0\+:", "step_q.own[1+:"),
        ("row at another index", r"rows_q\.src\[", "rows_q.acc["),
        ("stage left out", "stage_entry_o = result_\\w+", "stage_entry_o = stage_entry_i"),
    ),
}
"""Where a fault lies: its name, the pattern whose first match is replaced, what replaces it."""

RTL_FAULTS: tuple[RtlFault, ...] = tuple(
    RtlFault(name, where, _once(pattern, instead))
    for where, faults in _FAULTS.items()
    for name, pattern, instead in faults
)


# --- planting -------------------------------------------------------------------------------------
# Whether the generated tests catch planted faults, and name them by the view that is broken.
#
# A fault that fits several extensions can be planted in each. It is caught if one of the programs
# shows a disagreement, and the first is of the view that the fault is in.


MOST_PROGRAMS = 200
_PLAIN = replace(Config.preset("tiny"), name="tiny_batch", batch=2, block_in=8, inp_kib=2, acc_kib=2)


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A fault in one place: programs until it was found, what was found, and by which view."""

    name: str
    expected: tuple[View, ...]
    place: str
    programs: int
    finding: str
    view: str

    @property
    def caught(self) -> bool:
        """Whether a broken view was named."""
        return self.view in {view.value for view in self.expected}


def sample_machine(plain: Config = _PLAIN) -> Config:
    """A machine with the extensions in which faults are planted.

    By default a small one, whose entries and vectors differ in size, and which computes two rows at
    a time.
    """
    return extend(plain, *SAMPLES)


def plant(fault: Fault, seed: int = 0, most: int = MOST_PROGRAMS, places: int | None = None) -> list[PlantedFault]:
    """The outcome of a fault in the first `places` that can have it, by default all."""
    config = sample_machine()
    machines = islice(fault.machines(config), places)
    return [_planted(fault, GeneratedTests(config, built, fault.planted), seed, most) for built in machines]


def plant_in_rtl(fault: RtlFault, seed: int = 0, most: int = MOST_PROGRAMS) -> PlantedFault:
    """The outcome of a fault in the RTL, which is built with it."""
    from vdla.runtime.devices.rtl import RtlModel
    from vdla.runtime.devices.rtl_build import BuildOptions, build_library

    config = sample_machine()
    with fault.planted():
        model = RtlModel(build_library(fault.machine(config), BuildOptions(assertions=True)))
    with rtl_pair(config, model) as compare:
        outcome = _first(GeneratedTests(config, compare=compare), seed, most)
    return PlantedFault(fault.name, (View.RTL,), fault.where, *outcome)


def _planted(fault: Fault, tests: GeneratedTests, seed: int, most: int) -> PlantedFault:
    places = zip(tests.built.extensions, tests.config.extensions, strict=True)
    place = next((ours.name for ours, declared in places if ours != declared), "all")
    return PlantedFault(fault.name, (fault.view, *fault.also), place, *_first(tests, seed, most))


def _first(tests: GeneratedTests, seed: int, most: int) -> tuple[int, str, str]:
    """Programs until the first disagreement, its text and its view."""
    for number in range(most):
        failure = tests.check(seed + number)
        if failure is not None:
            return number + 1, str(failure), failure.view.value
    return most, "", ""
