# SPDX-License-Identifier: Apache-2.0
"""Compilations certify their programs; the certificate is kept, checked and trusted by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.integer_layers import IntegerLayers

from vdla.cli import main
from vdla.compiler.certificates.network_certificate import NetworkCertificate
from vdla.compiler.certificates.region_certificate import RegionCertificate, RegionVerdict
from vdla.compiler.certificates.symbols import CertificateError
from vdla.runtime.executor import artifact as artifacts
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.artifact_certificate import ArtifactCertificate, CertifiedProgram
from vdla.runtime.executor.errors import ArtifactError, ModelError
from vdla.runtime.executor.model import Model
from vdla.runtime.network import certify_model
from vdla.runtime.network.certificate_choice import certifies
from vdla.runtime.network.certify_model import require_same
from vdla.runtime.network.compile_network import compile_network


@cache
def model() -> Model:
    """Two layers on the machine, certified, and what they must compute."""
    made = IntegerLayers(3, (1, 6, 5, 6))
    for kind in ("conv", "add"):
        made.layer(kind)
    graph = made.graph()
    place = {node.outputs[0]: "vdla" for node in graph.nodes}
    return compile_network(graph, "tiny", place=place, certify=True).with_expressions()


def certificate() -> ArtifactCertificate:
    made = model().artifact.certificate
    assert made is not None
    return made


def changed(**parts: Any) -> Model:
    """The model with another certificate."""
    return Model(replace(model().artifact, certificate=replace(certificate(), **parts)))


def test_the_environment_chooses_unless_the_caller_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VDLA_CERTIFICATE")
    assert certifies(None)
    assert not certifies(False)
    monkeypatch.setenv("VDLA_CERTIFICATE", "0")
    assert not certifies(None)
    assert certifies(True)


def test_a_compilation_certifies_and_the_file_keeps_it() -> None:
    assert certificate().holds
    assert certificate().programs == tuple(program.digest for program in model().artifact.programs)
    assert model().certify_seconds is None  # of a model that is made again
    again = Artifact.from_bytes(model().artifact.to_bytes(), "net.vdla")
    assert again.certificate == certificate()
    assert require_same(Model(again), "net.vdla") is not None


def test_what_cannot_be_certified_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    region = RegionCertificate(
        region="region 1",
        verdict=RegionVerdict.UNKNOWN,
        program="1",
        expression="2",
        nodes=1,
        results=1,
        reason="its operator is new",
    )
    unknown = NetworkCertificate("g", 0, (region,))
    monkeypatch.setattr(certify_model, "certify_network", lambda *of: unknown)
    made = certify_model.with_certificate(Model(replace(model().artifact, certificate=None)))
    assert made.artifact.certificate is not None
    assert made.artifact.certificate.summary == "not certified: region 1: its operator is new"
    wrong = NetworkCertificate("g", 0, (replace(region, verdict=RegionVerdict.DIFFERS, reason="3 results differ"),))
    monkeypatch.setattr(certify_model, "certify_network", lambda *of: wrong)
    with pytest.raises(ModelError) as error:
        certify_model.with_certificate(model())
    assert str(error.value) == (
        f"compile {model().name}: the program of region 1 must compute its operators, got one that differs: "
        "3 results differ; this is a defect of the compiler (certify=False, or --no-certificate, compiles without "
        "this proof)"
    )


def test_the_hash_of_a_certificate_is_trusted_in_place_of_verification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.vdla"
    model().save(path)

    def refuse(program: object) -> None:
        raise AssertionError("verified again")

    monkeypatch.setattr(artifacts, "require_verified", refuse)
    assert Artifact.load(path, certificate().hash).certificate == certificate()
    with pytest.raises(AssertionError, match="verified again"):
        Artifact.load(path)
    with pytest.raises(ArtifactError, match="SHA-256 of the file or of its certificate must be the trusted 000000"):
        Artifact.load(path, "0" * 64)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"version": 2}, "version of the certificate must be 1, got 2"),
        ({"prime": "2^31 - 1"}, "prime of the certificate must be 2^61 - 1, got '2^31 - 1'"),
        ({"seed": -1}, "seed of the certificate must be from 0 to 2^63 - 1, got -1"),
        (
            {"regions": (CertifiedProgram("\x1b[2J", "1", "2", "certified", ""),)},
            "texts of the certificate must be printable, got '\\x1b[2J'",
        ),
        ({"programs": ()}, "certificate must be for 1 programs, got one for 0"),
        ({"programs": ("0" * 64,)}, f"of hash {'{}'}, got one for '{'0' * 16}'"),
    ],
)
def test_a_certificate_for_something_else_is_refused_at_loading(parts: dict[str, Any], text: str) -> None:
    with pytest.raises(ArtifactError) as error:
        Artifact.from_bytes(changed(**parts).artifact.to_bytes(), "net.vdla", certificate().hash)
    assert "must be the trusted" in str(error.value)  # its hash is another one
    with pytest.raises(ArtifactError) as error:
        Artifact.from_bytes(changed(**parts).artifact.to_bytes(), "net.vdla")
    assert text.format(model().artifact.programs[0].hash) in str(error.value)


def of_region(**parts: Any) -> dict[str, Any]:
    return {"regions": (replace(certificate().regions[0], **parts),)}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (lambda: {"lemmas": "1" * 64}, "certificate must be for the lemmas of this version, "),
        (lambda: {"regions": ()}, "certificate must be for 1 regions, got one for 0"),
        (lambda: of_region(expression="0"), "expression of the certificate must be "),
        (lambda: of_region(verdict="not certified"), "verdict of the certificate must be certified, got "),
    ],
)
def test_a_certificate_that_is_not_computed_again_is_refused(parts: Callable[[], dict[str, Any]], text: str) -> None:
    with pytest.raises(CertificateError) as error:
        require_same(changed(**parts()), "net.vdla")
    assert text in str(error.value)


def test_a_certificate_of_other_constants_is_refused() -> None:
    artifact = model().artifact
    name = next(iter(artifact.constants))
    constants = {**artifact.constants, name: np.roll(artifact.constants[name], 1)}
    with pytest.raises(ArtifactError, match="certificate must be for constants of hash "):
        require_same(Model(replace(artifact, constants=constants)), "net.vdla")


def test_verify_checks_the_certificate_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.vdla"
    model().save(path)
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.endswith(f"certificate {certificate().hash}, proven again: certified\n")
    Model(replace(model().artifact, expressions=b"")).save(path)
    assert main(["verify", str(path)]) == 0
    assert "certified; not proven again: the file does not keep what" in capsys.readouterr().out
    Model(replace(model().artifact, certificate=None)).save(path)
    assert main(["verify", str(path)]) == 0
    assert "not certified (vdla compile without --no-certificate certifies)" in capsys.readouterr().out
    changed(**of_region(expression="0")).save(path)
    assert main(["verify", str(path)]) == 2
    assert "expression of the certificate must be " in capsys.readouterr().err
