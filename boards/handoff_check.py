# SPDX-License-Identifier: Apache-2.0
"""Whether a bitstream and its handoff file are of one build, for a board and for a machine.

The invariant: what passes, the driver accepts on that board. The bitstream of an FPGA names neither
the machine nor the build, so that it is known by its part, design, version and time; the driver
compares the registers with the handoff file when it loads both.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from vdla.boards.bit_file import BitFile, parse_bit, parse_virtual
from vdla.boards.board import Board, BoardError
from vdla.boards.handoff_file import HandoffFile
from vdla.boards.hwh import VIVADO
from vdla.boards.ip import INTERRUPT_CONTROLLER, ip_parameters
from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash
from vdla.support.file_kind import unreadable
from vdla.support.suggest import one_of

CLOCK = "PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ"
"""The parameter with the accelerator's frequency, which the Vivado flow adds if need be."""
_CLOCK_ERROR = 1e-3
"""How far Vivado's frequency may be from that of a board's description, which is rounded."""
_ONE_BUILD = "copy both files from one build"


def read_bitstream(path: Path) -> tuple[BitFile, bytes]:
    """The bitstream in a file, and its content; BoardError where it is none."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BoardError(unreadable(path, error)) from None
    return parse_bit(content, str(path)), content


def machine_of(handoff: HandoffFile, board: Board) -> Config:
    """The machine of the board that a handoff file names."""
    name = handoff.parameters.get("PRESET", "none")
    if name not in board.machines:
        raise BoardError(f"{handoff.path}: machine must be {one_of(name, board.machines)}; give --config for another")
    return board.config(name)


def check_handoff(handoff: HandoffFile, board: Board, config: Config, accept_build: str | None = None) -> None:
    """BoardError unless the design is for this board and has this machine, of these sources or of
    the build that is accepted.
    """
    where = str(handoff.path)
    _check_part(where, handoff.part, board)
    if handoff.board_part not in ("", board.board_part):
        raise BoardError(f"{where}: board must be {board.board_part} for {board.name}, got {handoff.board_part}")
    _check_machine(handoff, board, config, accept_build)
    _check_clock(handoff, board)
    last = board.control_bytes - 1
    _check_range(handoff, handoff.instance, board.control_base, board.control_base + last)
    base = board.interrupt_controller_base
    _check_range(handoff, INTERRUPT_CONTROLLER, base, base + last)


def check_bitstream(path: Path, bit: BitFile, handoff: HandoffFile, board: Board) -> None:
    """BoardError unless the bitstream is for this board, and of the build of the handoff file."""
    where = str(path)
    _check_part(where, bit.part, board)
    design, *options = bit.design.split(";")
    version = next((option.partition("=")[2] for option in options if option.startswith("Version=")), "none")
    _same(path, "design", design.removesuffix("_wrapper"), handoff, handoff.design)
    _same(path, "version of Vivado", _release(version), handoff, _release(handoff.vivado))
    if version == VIVADO:
        _same(path, "SHA-256 of the .hwh", parse_virtual(bit.payload, where)["hwh_sha256"], handoff, handoff.sha256)
    _check_time(path, bit, handoff)


def _release(version: str) -> str:
    """2022.1 of 2022.1.2, since not every file names the update."""
    return ".".join(version.split(".")[:2])


def _same(path: Path, what: str, got: str, handoff: HandoffFile, wanted: str) -> None:
    if got != wanted:
        raise BoardError(f"{path}: {what} must be {wanted}, as {handoff.path} has it, got {got}; {_ONE_BUILD}")


def _check_time(path: Path, bit: BitFile, handoff: HandoffFile) -> None:
    """The block design is generated before the bitstream; a later one is of another build."""
    try:
        built = datetime.strptime(f"{bit.date} {bit.time}", "%Y/%m/%d %H:%M:%S")
    except ValueError:
        return
    if handoff.time is not None and built < handoff.time:
        earliest = f"{handoff.time}, that of {handoff.path}"
        raise BoardError(f"{path}: time must be after {earliest}, got {built}; {_ONE_BUILD}")


def _check_part(where: str, part: str, board: Board) -> None:
    """Vivado writes a part in several ways: 7z020clg400, without xc and speed grade, or in full."""
    if not _letters(part) or not _letters(board.part).startswith(_letters(part)):
        raise BoardError(f"{where}: part must be {board.part} for board {board.name}, got {part or 'none'}")


def _letters(part: str) -> str:
    """A part without what differs between the ways of writing it."""
    return re.sub(r"[^a-z0-9]", "", part.lower()).removeprefix("xc")


def _check_machine(handoff: HandoffFile, board: Board, config: Config, accept_build: str | None) -> None:
    where, given = str(handoff.path), handoff.parameters
    wanted = ip_parameters(board, config, build_hash(config))
    for name in ("FINGERPRINT", "COHERENT"):
        got = given.get(name, "none")
        if got != wanted[name]:
            raise BoardError(
                f"{where}: parameter {name} must be {wanted[name]} for {config.name} on {board.name}, got {got}; build "
                "the bitstream again, with vdla board vivado"
            )
    build = given.get("BUILD", "none")
    if build not in (wanted["BUILD"], accept_build):
        raise BoardError(
            f"{where}: parameter BUILD must be {wanted['BUILD']}, that of these sources, got {build}; build the "
            f"bitstream again, with vdla board vivado, or give --accept-build {build}"
        )


def _check_clock(handoff: HandoffFile, board: Board) -> None:
    text = handoff.parameter(CLOCK)
    try:
        mhz = float(text or "none")
    except ValueError:
        raise BoardError(f"{handoff.path}: parameter {CLOCK} must be the clock in MHz, got {text or 'none'}") from None
    if not abs(mhz - board.clock_mhz) <= _CLOCK_ERROR * board.clock_mhz:
        raise BoardError(f"{handoff.path}: clock must be {board.clock_mhz:g} MHz for {board.name}, got {mhz:g} MHz")


def _check_range(handoff: HandoffFile, instance: str, first: int, last: int) -> None:
    ranges = [item for item in handoff.ranges() if item.instance == instance]
    if not any((item.first, item.last) == (first, last) for item in ranges):
        got = ", ".join(f"{item.first:#x} to {item.last:#x}" for item in ranges) or "none"
        raise BoardError(f"{handoff.path}: addresses of {instance} must be {first:#x} to {last:#x}, got {got}")
