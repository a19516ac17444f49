# SPDX-License-Identifier: Apache-2.0
"""Runs of one small program by several clients of a board, and what comes of each."""

from __future__ import annotations

import re
from typing import Any

from helpers.small_programs import small_gemm
from vdla.hardware.config import Config
from vdla.runtime.devices import Device, DeviceError
from vdla.runtime.devices.run import run
from vdla.simulator.simulate import simulate

TINY = Config.preset("tiny")
PROGRAM, OURS, _ = small_gemm(TINY)
THEIRS = {**OURS, "inp": OURS["inp"] ^ 1}
EXPECTED = {id(inputs): simulate(PROGRAM, inputs) for inputs in (OURS, THEIRS)}
HEAD = "device pynq: board must have one client during a run, got "
TAIL = (
    "; the run has no result: end the other client, or let all of them use one vdla board serve --listen, and run again"
)


def outcome(device: Device, inputs: dict[str, Any] = OURS) -> str:
    """What comes of a run: "right", or what the sentence says; anything else fails the test."""
    try:
        result = run(PROGRAM, inputs, device)
    except DeviceError as error:
        text = re.sub(r" \(open on the board: [^)]*\)", "", str(error))  # the other client's name, if it is noted
        assert text.startswith(HEAD) and text.endswith(TAIL), error
        return text.removeprefix(HEAD).removesuffix(TAIL)
    expected = EXPECTED[id(inputs)]
    assert (result.outputs["out"] == expected.outputs["out"]).all()
    assert result.statistics.differences(expected.statistics) == []
    return "right"
