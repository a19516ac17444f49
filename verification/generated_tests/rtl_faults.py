"""Faults in the RTL of extensions: in the text of a datapath, and in what is generated around it.

An edit is made of the text that any extension can have; where it changes nothing, the fault does
not apply. The simulator stays as it is, so that the RTL is the view that must be named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

from vdla.hardware.config import Config
from vdla.hardware.generate import extension_files

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
        """The machine with the datapath edited; as it is where the fault lies elsewhere."""
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

RTL_FAULTS: tuple[RtlFault, ...] = (
    RtlFault("result a cycle late", "datapath", _once(r"assign result_o = ([^;]+);", _LATE)),
    RtlFault("result a cycle early", "datapath", _once(r"always_ff @\(posedge clk_i\) (\S+) <=", r"always_comb \1 =")),
    RtlFault("sign of an operand lost", "datapath", _once(r"32'\(signed'\((src_i[^)]*)\)\)", r"32'(unsigned'(\1))")),
    RtlFault("element of the next lane", "datapath", _once(r"src_i\[b\]\[o\]", "src_i[b][(o + 1) % BlockOut]")),
    RtlFault("element of the next row of weights", "datapath", _once(r"wgt_i\[o\]", "wgt_i[(o + 1) % BlockOut]")),
    RtlFault("another operator", "datapath", _once(r"(_i\S*) \+ ", r"\1 - ")),
    RtlFault("arithmetic shift without sign", "datapath", _once(">>>", ">>")),
    RtlFault("last term left out", "datapath", _once("i < BlockIn", "i < BlockIn - 1")),
    RtlFault("last entry of a group left out", "datapath", _once(r"i < (\d)\*BlockIn", r"i < (\1-1)*BlockIn")),
    RtlFault("state changed two cycles late", "datapath", _once(_UPDATE, _STALE)),
    RtlFault("state not changed", "datapath", _once(_UPDATE, r"if (1'b0) \2[\3][o] <= \4;")),
    RtlFault(
        "state changed without a step", "datapath", _once(_UPDATE, r"if (\1_valid_i || \1_begin_i) \2[\3][o] <= \4;")
    ),
    RtlFault("state changed in another row", "datapath", _once(_UPDATE, r"if (\1_valid_i) \2[\3 ^ 1][o] <= \4;")),
    RtlFault("state read in another row", "datapath", _once(r"(<= \w+\[b\]\[o\] \+ .*\[\w+_row_i)\]", r"\1 ^ 1]")),
    RtlFault("state of another lane", "datapath", _once(r"(\w+_row_i\])\[o\]\)", r"\1[(o + 1) % BlockOut])")),
    RtlFault("stage with another operator", "datapath", _once(r"(tint_x_i\S*) \+", r"\1 -")),
    RtlFault("array not taken", "datapath", _once(r"array_valid_o = valid_i", "array_valid_o = 1'b0")),
    RtlFault("weights of one batch row in all", "datapath", _once(r"wgt_i\[\(o\+b\)%BlockOut\]", "wgt_i[o]")),
    RtlFault("sum replaced by a maximum", "package", _once("op: VecAdd", "op: VecMax")),
    RtlFault("sum not accumulated", "package", _once("accumulates: 1'b1", "accumulates: 1'b0")),
    RtlFault("old entry not read", "package", _once("reads_old: 1'b1", "reads_old: 1'b0")),
    RtlFault("latency of the slot a cycle less", "package", _once(r"LatencyBits'\(3'sd3\)", "LatencyBits'(3'sd2)")),
    RtlFault("latency without its field", "package", _once(r"LatencyBits'\(\(5'sd1 \+ [^;]*;", "LatencyBits'(1);")),
    RtlFault("a cycle more from step to step", "package", _once(r"StepBits'\((?!0\))", "StepBits'(1 + ")),
    RtlFault("own fields a bit off", "package", _once(r"word\[(\d+)\+:OwnBits\]", r"word[\1-1+:OwnBits]")),
    RtlFault("group of sources half as large", "package", _once("src_scale: 2'd2", "src_scale: 2'd1")),
    RtlFault("group of weights an entry", "package", _once("wgt_scale: 2'd1", "wgt_scale: 2'd0")),
    RtlFault("instruction of state that writes sums", "package", _once("writes_sums: 1'b0", "writes_sums: 1'b1")),
    RtlFault("latency of the stage a cycle less", "package", _once(r"StageLatency = (\d+)", r"StageLatency = \1-1")),
    RtlFault("array not lent", "package", _once("ArrayIsLent = 1", "ArrayIsLent = 0")),
    RtlFault("array taken without a step", "slot", _once("array_valid_o = [^;]+;", "array_valid_o = 1'b1;")),
    RtlFault("source and old entry exchanged", "slot", _once(r"\.src_i\(sum_i\)", ".src_i(old_i)")),
    RtlFault("result of another extension", "slot", _once(r"(\(\d+\): results_o = result_)\w+;", r"\1blend;")),
    RtlFault("a field at another place", "slot", _once(r"step_q\.own\[0\+:", "step_q.own[1+:")),
    RtlFault("row at another index", "slot", _once(r"rows_q\.src\[", "rows_q.acc[")),
    RtlFault("stage left out", "slot", _once("stage_entry_o = result_\\w+", "stage_entry_o = stage_entry_i")),
)
