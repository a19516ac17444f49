# SPDX-License-Identifier: Apache-2.0
"""The verifier: whether a program is safe to run, decided from its words alone.

A verified program cannot hang, access memory outside of its tensors, or give results that depend on
timing, on any machine of its configuration's fingerprint, whatever the DRAM and the queue depths.
docs/verifier.md has the proof.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from vdla.hardware.config import Config
from vdla.hardware.isa import IsaError, check
from vdla.hardware.program import Program
from vdla.simulator.support.errors import require_program
from vdla.simulator.verify.accesses import program_accesses
from vdla.simulator.verify.clear import clear
from vdla.simulator.verify.deadlock import token_findings
from vdla.simulator.verify.races import RaceCheck
from vdla.simulator.verify.tokens import token_run
from vdla.simulator.verify.verdict import Finding, Kind, Verdict

_MOST_OF_A_KIND = 8
"""The most findings of one kind that a verdict keeps."""


def verify(program: Program, config: Config | None = None) -> Verdict:
    """The verdict on `program` for the machine `config`, by default the one it was compiled for.

    A wrong configuration or an invalid word ends the checks: later ones need valid words.
    """
    require_program("verify", program, config)
    empty = Verdict(program.name, len(program))
    mismatch = None if config is None else program.config.mismatch(config)
    if mismatch is not None:
        return replace(empty, findings=(Finding(kind=Kind.CONFIGURATION, message=mismatch),))
    invalid = list(_invalid_words(program))
    if invalid:
        return _with(empty, invalid)
    run = token_run(program.columns)
    warnings = clear(program, run)
    if warnings is not None:
        return _with(empty, (), warnings)
    accesses = program_accesses(program)
    races = RaceCheck(program, accesses, run)
    findings = [*accesses.findings, *token_findings(program, run), *races.findings()]
    return _with(empty, findings, () if findings else tuple(races.warnings()))


_VERIFIED: OrderedDict[str, None] = OrderedDict()
_MOST_REMEMBERED = 512
_BLOCK = 1024
"""Words that are checked at once: columns of all words would take most of the memory of loading."""


def require_verified(program: Program) -> None:
    """VerifyError unless the program is safe; the hashes of safe programs are cached.

    Of a program with the structure of a verified one, only the encoding is checked.
    """
    if program.hash in _VERIFIED:
        return
    if program.structure not in _VERIFIED or any(_invalid_words(program)):
        verify(program, program.config).raise_if_bad()
        _remember(program.structure)
    _remember(program.hash)


def accept_verified(program: Program) -> None:
    """Take a program for verified: its file is one that a user trusts by its hash."""
    _remember(program.hash)


def _remember(digest: str) -> None:
    _VERIFIED[digest] = None
    if len(_VERIFIED) > _MOST_REMEMBERED:
        _VERIFIED.popitem(last=False)


def _with(verdict: Verdict, new_findings: Iterable[Finding], warnings: tuple[Finding, ...] = ()) -> Verdict:
    by_kind: dict[Kind, list[Finding]] = {}
    for finding in sorted(new_findings, key=lambda finding: finding.instructions):
        by_kind.setdefault(finding.kind, []).append(finding)
    kept = tuple(finding for kind in Kind for finding in islice(by_kind.get(kind, ()), _MOST_OF_A_KIND))
    more = sum(len(findings) for findings in by_kind.values()) - len(kept)
    return replace(verdict, findings=kept, warnings=warnings, more=more)


def _invalid_words(program: Program) -> Iterator[Finding]:
    """The invalid words, each with the first rule that it breaks."""
    for start in range(0, len(program), _BLOCK):
        yield from _invalid_among(program, start, min(start + _BLOCK, len(program)))


def _invalid_among(program: Program, start: int, end: int) -> Iterator[Finding]:
    """Those from `start` to `end`; a half without any is checked as a whole."""
    try:
        check(program.config, program.words[start:end])
    except IsaError as error:
        if end - start == 1:
            yield Finding(kind=Kind.ENCODING, message=f"instruction {start}: {error.problem}", instructions=(start,))
            return
        middle = (start + end) // 2
        yield from _invalid_among(program, start, middle)
        yield from _invalid_among(program, middle, end)
