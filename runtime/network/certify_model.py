# SPDX-License-Identifier: Apache-2.0
"""The certificate of a model that was compiled just now, and of one in a file, computed again."""

from __future__ import annotations

import time

from vdla.compiler.certificates.lemmas import lemmas_digest
from vdla.compiler.certificates.network_certificate import NetworkCertificate, certify_network
from vdla.compiler.certificates.region_certificate import RegionVerdict
from vdla.compiler.certificates.symbols import CertificateError
from vdla.runtime.executor.artifact_certificate import (
    PRIME,
    VERSION,
    ArtifactCertificate,
    CertifiedProgram,
    digest_of_constants,
)
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.executor.model import Model
from vdla.support.progress import Progress, silent

_SEED = 0


def with_certificate(model: Model, progress: Progress = silent) -> Model:
    """A model whose file has the certificate of its programs.

    Raises:
        ModelError: a program computes something else than its operators.
    """
    if not model.artifact.programs:
        return model
    start = time.perf_counter()
    certificate = certify_network(model, _SEED, lambda region, done, total: progress(f"certify {region}", done, total))
    for region in certificate.regions:
        if region.verdict is RegionVerdict.DIFFERS:
            rule = f"the program of {region.region} must compute its operators"
            raise ModelError(
                f"compile {model.name}: {rule}, got one that differs: {region.reason}; this is a defect of the "
                "compiler (certify=False, or --no-certificate, compiles without this proof)"
            )
    made = model.with_certificate(recorded(model, certificate))
    made.certify_seconds = time.perf_counter() - start
    return made


def recorded(model: Model, certificate: NetworkCertificate) -> ArtifactCertificate:
    """What a file keeps of a certificate."""
    artifact = model.artifact
    regions = (
        CertifiedProgram(_printable(one.region), one.program, one.expression, one.verdict.value, _printable(one.reason))
        for one in certificate.regions
    )
    return ArtifactCertificate(
        version=VERSION,
        prime=PRIME,
        seed=certificate.seed,
        lemmas=lemmas_digest(),
        constants=digest_of_constants(artifact.constants),
        programs=tuple(program.digest for program in artifact.programs),
        regions=tuple(regions),
    )


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def require_same(model: Model, where: str, progress: Progress = silent) -> NetworkCertificate | None:
    """The certificate of a model in a file, computed again with its seed; None where the file does
    not keep what its programs must compute.

    Raises:
        ArtifactError: the certificate is for other programs or constants, or of another version.
        CertificateError: it is for other expressions or lemmas, or claims what does not hold.
    """
    kept = model.artifact.certificate
    assert kept is not None
    kept.require_programs(where, model.artifact.programs)
    kept.require_constants(where, model.artifact.constants)
    if not model.expressions:
        return None
    certificate = certify_network(model, kept.seed, progress)
    made = recorded(model, certificate)
    if kept.lemmas != made.lemmas:
        rule = f"certificate must be for the lemmas of this version, {made.lemmas[:16]}"
        raise CertificateError(f"{where}: {rule}, got one for {kept.lemmas[:16]!r}")
    if len(kept.regions) != len(made.regions):
        rule = f"certificate must be for {len(made.regions)} regions"
        raise CertificateError(f"{where}: {rule}, got one for {len(kept.regions)}")
    for claimed, proven in zip(kept.regions, made.regions, strict=True):
        for what in ("region", "program", "expression", "verdict"):
            wanted, got = getattr(proven, what), getattr(claimed, what)
            if wanted != got:
                rule = f"{what} of the certificate must be {wanted}"
                raise CertificateError(f"{where}: {proven.region}: {rule}, got {got!r}")
    return certificate
