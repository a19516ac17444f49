# SPDX-License-Identifier: Apache-2.0
"""The certificate of a program of one operator: put into its file, and proven again from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from vdla.commands import CommandError
from vdla.commands.named_operators import from_settings, from_workload, layer_names, templates

if TYPE_CHECKING:
    from vdla.compiler.certificates.certify import Certificate
    from vdla.compiler.operators.vdla import Operator
    from vdla.hardware.config import Config
    from vdla.hardware.program import Program

_THREADS = 1  # the expression is the same with others
_EXTENTS = (
    "batch", "height", "width", "rows", "channels", "in_channels", "out_channels", "in_features", "out_features",
)  # fmt: skip
_PADDING = 64
"""How many times its products the extents of an operator may be: strides leave elements out."""


def with_certificate(program: Program, certificate: Certificate, operator: str, settings: Sequence[str]) -> Program:
    """A program whose file has the certificate of an operator with options as KEY=VALUE words."""
    from vdla.compiler.certificates.lemmas import lemmas_digest
    from vdla.hardware.program.certificate import PRIME, VERSION, ProgramCertificate

    made = ProgramCertificate(
        version=VERSION,
        prime=PRIME,
        seed=certificate.seed,
        lemmas=lemmas_digest(),
        program=program.digest,
        expression=certificate.expression,
        operator=operator if operator in templates() else operator.upper(),
        settings=tuple(settings),
    )
    return replace(program, certificate=made)


def proven_again(program: Program, where: str) -> Certificate:
    """The certificate of a verified program, computed again.

    Raises:
        CommandError: it is for another program, expression, version or lemmas, or does not hold.
        CertificateError: it needs more work than any program.
    """
    from vdla.compiler.certificates.certify import certify
    from vdla.compiler.certificates.lemmas import lemmas_digest
    from vdla.compiler.certificates.work_limit import work_limit

    kept = program.certificate
    assert kept is not None
    wrong = kept.violation(program.digest, lemmas_digest())
    if wrong is not None:
        raise CommandError(f"{where}: {wrong}")
    _require_extents(program, kept.settings, where)
    with work_limit():
        made = certify(_operator(kept.operator, kept.settings, program.config, where), seed=kept.seed, program=program)
    if made.expression != kept.expression:
        rule = f"expression of the certificate must be {made.expression}"
        raise CommandError(f"{where}: {rule}, that of {kept.operator}, got {kept.expression!r}")
    if not made.holds:
        raise CommandError(f"{where}: certificate must be one that holds, got one that does not: {made}")
    return made


def said(program: Program, certificate: Certificate) -> str:
    """What is proven again of a program."""
    kept = program.certificate
    assert kept is not None
    shown = " ".join([kept.operator, *kept.settings])
    return f"certificate, proven again: the program computes {shown}, expression {certificate.expression}"


def _operator(name: str, settings: Sequence[str], config: Config, where: str) -> Operator:
    if name in templates():
        return from_settings(f"{where}: certificate:", name, config, list(settings), _THREADS)
    if name in layer_names() and not settings:
        from vdla.compiler.operators.workloads import workload

        return from_workload(workload(name), config, _THREADS)
    rule = "operator of the certificate must be a template or a layer"
    raise CommandError(f"{where}: {rule}, got {name!r}")


def _require_extents(program: Program, settings: Sequence[str], where: str) -> None:
    """CommandError if the operator is so large that this program cannot compute it: compiling it,
    to know its expression, would take as long as somebody wants.
    """
    from vdla.compiler.certificates.work_limit import iterations_of

    config = program.config
    most = _PADDING * int(iterations_of(program).sum()) * config.batch * config.block_in * config.block_out
    words = dict(word.partition("=")[::2] for word in settings)
    extents = [int(words[name]) for name in _EXTENTS if words.get(name, "").isdecimal()]
    if prod(extents) > most:
        rule = f"extents of the certificate's operator must be of at most {most:,} products"
        raise CommandError(f"{where}: {rule}, got {prod(extents):,}")
