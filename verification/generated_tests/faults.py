# SPDX-License-Identifier: Apache-2.0
"""The faults that are planted in the implementation of an extension, each with the view to name it.

A fault changes what the machine is made of, a plug-in's data or the text of its step, or replaces a
function that treats plug-ins. The declaration stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from vdla.hardware import timing as contract
from vdla.hardware.asm import assembler, disassembler
from vdla.hardware.asm.lines import Word, integer
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.isa import (
    COL,
    EXTENSION,
    Excess,
    Extended,
    Field,
    Footprints,
    Instruction,
    OldSum,
    PlugIn,
    PlugInStage,
    Row,
    Rule,
    Unit,
    UopOffsets,
    encoding,
    rules,
)
from vdla.hardware.timing import RESULT_DELAY
from vdla.simulator.timing import wait_table
from vdla.support.arrays import Ints
from vdla.verification.generated_tests import plug_in_changes as changes
from vdla.verification.generated_tests.check import Breaking
from vdla.verification.generated_tests.views import View

StageChange = Callable[[PlugInStage], PlugInStage]


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault: a broken plug-in, a broken `stage`, or `planted`, a broken function.

    `view` is what it breaks; `also` are other views that go by the same data, and that a program
    may show first.
    """

    name: str
    view: View
    change: changes.Change | None = None
    planted: Breaking = nullcontext
    stage: StageChange | None = None
    also: tuple[View, ...] = ()

    def machines(self, config: Config) -> Iterator[Config]:
        """The machine with the fault: in each plug-in that can have it, or in the function."""
        if self.stage is not None and config.stage is not None:
            yield replace(config, stage=self.stage(config.stage))
            return
        if self.change is None:
            yield config
            return
        for number, plug_in in enumerate(config.extensions):
            broken = self.change(plug_in)
            if broken is None:
                continue
            plug_ins = (*config.extensions[:number], broken, *config.extensions[number + 1 :])
            try:
                yield replace(config, extensions=plug_ins)
            except ConfigError:  # a field or an operand that this machine cannot have
                continue


# --- broken functions -----------------------------------------------------------------------------


def _replaced(target: object, name: str, instead: Callable[..., Any]) -> Breaking:
    def planted() -> AbstractContextManager[object]:
        return patch.object(target, name, instead)

    return planted


def _without_interlock(plug_in: PlugIn, field: Callable[[str], Any]) -> Any:  # noqa: ANN401  a number or a column
    return np.maximum(plug_in.interval.value(field), plug_in.accumulator_reads)


def _without_conflicts(plug_in: PlugIn, field: Callable[[str], Any]) -> Any:  # noqa: ANN401  as above
    back = 1 if plug_in.rereads is None else RESULT_DELAY[plug_in.rereads] + plug_in.latency.value(field)
    return np.maximum(plug_in.interval.value(field), back)


def _draining(table: Ints, columns: Ints) -> None:
    order = np.flatnonzero(columns[:, COL["unit"]] == Unit.COMPUTE)
    table[order[1:], wait_table.F["limit"]] = table[order[1:], wait_table.F["prev"]]


def _without_draining(table: Ints, columns: Ints) -> None:
    """Leaves the limit of instructions in flight as the only one."""


_first_broken, _excess = rules.first_broken, Footprints.excess


def _without_own_rules(config: Config, columns: Ints, index_of: dict[str, int]) -> tuple[int, Rule] | None:
    fault = _first_broken(config, columns, index_of)
    return None if fault is None or fault[1].opcodes == (EXTENSION,) else fault


def _without_bounds(self: Footprints, row: Row, kernel: UopOffsets | None) -> list[Excess]:
    return [] if row[COL["opcode"]] == EXTENSION else _excess(self, row, kernel)


_field_word, _token_words = disassembler._field_word, disassembler._token_words


def _without_signs(field: Field, value: int, default: int | None) -> Iterator[str]:
    yield from (word.replace("=-", "=") for word in _field_word(field, value, default))


def _without_signals(instruction: Instruction) -> Iterator[str]:
    hidden = isinstance(instruction, Extended)
    yield from (word for word in _token_words(instruction) if not (hidden and word.startswith("signal")))


def _without_sign(word: Word, name: str, value: str | None) -> int:
    return abs(integer(word, name, value))


def _other_stage(stage: PlugInStage) -> PlugInStage:
    return replace(stage, kernel=changes.other_operator(stage.kernel))


# --- the faults -----------------------------------------------------------------------------------

_TIMING = (
    Fault("interval longer", View.TIMING, changes.formula("interval", lambda text: f"({text}) + 2")),
    Fault("interval without its fields", View.TIMING, changes.without_fields("interval")),
    Fault("latency longer", View.TIMING, changes.formula("latency", lambda text: f"({text}) + 1")),
    Fault("latency of 0", View.TIMING, changes.formula("latency", lambda _: "0")),
    Fault(
        "no interlock of dependent steps",
        View.TIMING,
        planted=_replaced(contract, "extension_step", _without_interlock),
    ),
    Fault(
        "two reads of the accumulator in a cycle",
        View.TIMING,
        planted=_replaced(contract, "extension_step", _without_conflicts),
    ),
    Fault("drains before its own kind", View.TIMING, planted=_replaced(wait_table, "_fill_drains", _draining)),
    Fault(
        "no drain before another kind", View.TIMING, planted=_replaced(wait_table, "_fill_drains", _without_draining)
    ),
)
_DECODER = (
    Fault("a field one bit narrower", View.DECODER, changes.wider(-1)),
    Fault("a field one bit wider", View.DECODER, changes.wider(1)),
    Fault("a field of the other sign", View.DECODER, changes.other_sign),
    Fault("fields in another order", View.DECODER, changes.reordered),
    Fault("no rules of its own", View.VERIFIER, planted=_replaced(encoding, "first_broken", _without_own_rules)),
)
_TEXT = (
    Fault(
        "sign of a field not printed", View.ASSEMBLER, planted=_replaced(disassembler, "_field_word", _without_signs)
    ),
    Fault("tokens not printed", View.ASSEMBLER, planted=_replaced(disassembler, "_token_words", _without_signals)),
    Fault("sign of a field not read", View.ASSEMBLER, planted=_replaced(assembler, "integer", _without_sign)),
)
_PORTS = (
    Fault("source in another buffer", View.FOOTPRINT, changes.port("src", changes.other_buffer)),
    Fault(
        "source an entry in place of a vector, or the reverse", View.FOOTPRINT, changes.port("src", changes.other_view)
    ),
    Fault(
        "weight an entry in place of a vector, or the reverse", View.FOOTPRINT, changes.port("wgt", changes.other_view)
    ),
    Fault("source not read", View.FOOTPRINT, changes.unread("src")),
    Fault("weight not read", View.FOOTPRINT, changes.unread("wgt")),
    Fault("old value not read", View.FOOTPRINT, changes.old_sum(OldSum.READ, OldSum.OVERWRITE)),
    Fault("old value read where it is overwritten", View.FOOTPRINT, changes.old_sum(OldSum.OVERWRITE, OldSum.READ)),
    Fault(
        "sum not continued",
        View.FOOTPRINT,
        changes.old_sum(OldSum.ACCUMULATE, OldSum.OVERWRITE),
        also=(View.VERIFIER,),  # which refuses to begin a sum
    ),
    Fault("no bounds of its indices", View.VERIFIER, planted=_replaced(Footprints, "excess", _without_bounds)),
)
_FUNCTION = (
    Fault("begin ignored", View.FUNCTION, changes.edited(lambda text: text.replace("if begin else", "if False else"))),
    Fault(
        "begin in every step", View.FUNCTION, changes.edited(lambda text: text.replace("if begin else", "if True else"))
    ),
    Fault("last lane left out", View.FUNCTION, changes.edited(changes.last_lane)),
    Fault("lanes reversed", View.FUNCTION, changes.at_end("new[:] = new[::-1].copy()")),
    Fault("source of the next lane", View.FUNCTION, changes.of_operand("src", "src = np.roll(src, 1)")),
    Fault("weight of the next lane", View.FUNCTION, changes.of_operand("wgt", "wgt = np.roll(wgt, 1)")),
    Fault("sign of the source lost", View.FUNCTION, changes.of_operand("src", "src = np.abs(src)")),
    Fault("old value and source exchanged", View.FUNCTION, changes.exchanged_sums),
    Fault("fields exchanged", View.FUNCTION, changes.exchanged_fields),
    Fault("another operator", View.FUNCTION, changes.edited(changes.other_operator)),
)
_STATE = (
    Fault("state at another index", View.FOOTPRINT, changes.held(changes.other_index)),
    Fault("state not written", View.FOOTPRINT, changes.held(changes.unwritten)),
    Fault("state changed otherwise", View.FUNCTION, changes.edited(changes.other_update)),
    Fault("stage with another operator", View.FUNCTION, stage=_other_stage),
    Fault("stage of a longer latency", View.TIMING, stage=lambda stage: replace(stage, latency=stage.latency + 1)),
)
FAULTS: tuple[Fault, ...] = (*_TIMING, *_DECODER, *_TEXT, *_PORTS, *_FUNCTION, *_STATE)
