# SPDX-License-Identifier: Apache-2.0
"""Machines with extensions of every kind, whose RTL several tests run: one build serves all, with
assertions and with counters of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import vdla
from helpers.staged_datapaths import leaky
from helpers.stateful_datapaths import echo, tally, tinted
from vdla.benchmarks.evaluate import examples
from vdla.hardware.config import Config
from vdla.runtime.devices.rtl import RtlModel
from vdla.runtime.devices.rtl_build import BuildOptions, build_library
from vdla.verification.generated_tests.datapath_samples import GROUPS, LATER, SPACED, copied, distance
from vdla.verification.generated_tests.input_samples import handed, woven

TINY = Config.preset("tiny")
WIDE = replace(TINY, batch=2, block_in=8, acc_kib=4, inp_kib=4)
DOUBLE = replace(TINY, name="double", batch=2, block_in=16, block_out=8, acc_kib=8, inp_kib=4, wgt_kib=2, array_rate=2)

EXTENDED: Mapping[str, tuple[Config, tuple[Any, ...]]] = {
    "later": (TINY, (*LATER, leaky(0))),
    "spaced and groups": (WIDE, (*SPACED, leaky(5), *GROUPS)),
    "state": (DOUBLE, (tally, echo, distance(1), tinted, "depthwise")),
    "inputs": (TINY, (handed(2), woven(1))),
    "many": (TINY, tuple(copied(k % 3, name=f"copied_{k}", more=k) for k in range(18))),
}
"""A plain machine and what is declared for it, by kind."""


def extended(kind: str, folder: Path) -> Config:
    """The machine of a kind; examples are written to a folder."""
    plain, declared = EXTENDED[kind]
    return vdla.extend(plain, *(str(examples.write_file(x, folder)) if isinstance(x, str) else x for x in declared))


def model_of(config: Config) -> RtlModel:
    """The RTL of a machine with assertions and counters."""
    return RtlModel(build_library(config, BuildOptions(assertions=True, activity=True)))
