# SPDX-License-Identifier: Apache-2.0
"""The certificate in the file of a network: which programs were proven to compute what, and how.

It is a claim of whoever compiled the network. `vdla verify` computes it again; who names its hash
trusts it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.program import Program
from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.json_fields import from_json, to_json

VERSION = 1
PRIME = "2^61 - 1"
CERTIFIED = "certified"
_SEEDS = 1 << 63

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class CertifiedProgram:
    """The verdict on the program that a region runs; `program` and `expression` are hashes, and
    `reason` says why it is not certified.
    """

    region: str
    program: str
    expression: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class ArtifactCertificate:
    """The verdicts on the programs of a network, all of them verified.

    `programs` and `constants` are SHA-256, of each program and of all constants; `lemmas` is that
    of the lemmas that were used.
    """

    version: int
    prime: str
    seed: int
    lemmas: str
    constants: str
    programs: tuple[str, ...]
    regions: tuple[CertifiedProgram, ...]

    @property
    def holds(self) -> bool:
        """Whether all programs are certified."""
        return all(region.verdict == CERTIFIED for region in self.regions)

    @property
    def hash(self) -> str:
        """The SHA-256 by which a user trusts it."""
        return hashlib.sha256(json.dumps(to_json(self), sort_keys=True).encode()).hexdigest()

    @property
    def summary(self) -> str:
        """What holds of the programs, and the first reason where something does not."""
        missing = [region for region in self.regions if region.verdict != CERTIFIED]
        if not missing:
            return "certified"
        count = Counter(region.verdict == CERTIFIED for region in self.regions)[True]
        part = f"{count} of {len(self.regions)} programs certified" if count else "not certified"
        return f"{part}: {missing[0].region}: {missing[0].reason}"

    def require_programs(self, where: str, programs: Sequence[Program]) -> None:
        """ArtifactError unless it is for these programs, by this version."""
        for what, wanted in (("version", VERSION), ("prime", PRIME)):
            got = getattr(self, what)
            if got != wanted:
                raise ArtifactError(f"{where}: {what} of the certificate must be {wanted}, got {got!r}")
        if not 0 <= self.seed < _SEEDS:
            raise ArtifactError(f"{where}: seed of the certificate must be from 0 to 2^63 - 1, got {self.seed}")
        texts = (text for region in self.regions for text in (region.region, region.verdict, region.reason))
        for text in texts:
            if not text.isprintable():
                raise ArtifactError(f"{where}: texts of the certificate must be printable, got {text!r}")
        if len(self.programs) != len(programs):
            rule = f"certificate must be for {len(programs)} programs"
            raise ArtifactError(f"{where}: {rule}, got one for {len(self.programs)}")
        for index, (program, digest) in enumerate(zip(programs, self.programs, strict=True)):
            if program.digest != digest:
                rule = f"certificate must be for program {index}, {program.name}, of hash {program.hash}"
                raise ArtifactError(f"{where}: {rule}, got one for {digest[:16]!r}")

    def require_constants(self, where: str, constants: Mapping[str, Array]) -> None:
        """ArtifactError unless it is for these constants."""
        digest = digest_of_constants(constants)
        if digest != self.constants:
            rule = f"certificate must be for constants of hash {digest[:16]}"
            raise ArtifactError(f"{where}: {rule}, got one for {self.constants[:16]!r}")

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        made: dict[str, Any] = to_json(self)
        return made

    @staticmethod
    def from_json(raw: object) -> ArtifactCertificate:
        """The certificate that `to_json` gave; ArtifactError for anything else."""
        return from_json(ArtifactCertificate, raw, "certificate")


def digest_of_constants(constants: Mapping[str, Array]) -> str:
    """The SHA-256 of constants with their names, types and shapes."""
    digest = hashlib.sha256()
    for name in sorted(constants):
        value = constants[name]
        digest.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
        is_text = value.dtype == object
        digest.update(json.dumps(value.tolist()).encode() if is_text else np.ascontiguousarray(value).data)
    return digest.hexdigest()
