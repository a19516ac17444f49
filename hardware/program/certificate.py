# SPDX-License-Identifier: Apache-2.0
"""The certificate in a program's file: the operator that it was proven to compute, and how.

It is a claim of whoever compiled the program. `vdla verify` proves it again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

VERSION = 1
PRIME = "2^61 - 1"
_MOST_SEED = 1 << 63


@dataclass(frozen=True, slots=True)
class ProgramCertificate:
    """What is claimed: the program of this SHA-256 computes the expression of this hash, which is
    that of a template or a layer with these options, as KEY=VALUE words.

    `lemmas` is the SHA-256 of the lemmas that were used.
    """

    version: int
    prime: str
    seed: int
    lemmas: str
    program: str
    expression: str
    operator: str
    settings: tuple[str, ...]

    def violation(self, program: str, lemmas: str) -> str | None:
        """The first part that is not for this program, these lemmas and this version, as
        `must ..., got ...`.
        """
        wanted = {"version": VERSION, "prime": PRIME, "lemmas": lemmas, "program": program}
        for name, value in wanted.items():
            got = getattr(self, name)
            if got != value:
                shown = (value, got) if name in ("version", "prime") else (str(value)[:16], got[:16])
                return f"{name} of the certificate must be {shown[0]}, got {shown[1]!r}"
        if not 0 <= self.seed < _MOST_SEED:
            return f"seed of the certificate must be from 0 to 2^63 - 1, got {self.seed}"
        return None

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "settings": list(self.settings)}

    @staticmethod
    def from_json(raw: Any) -> ProgramCertificate:  # noqa: ANN401  JSON
        """The certificate that `to_json` gave.

        Raises:
            TypeError: anything else.
        """
        if not isinstance(raw, dict):
            raise TypeError(f"certificate must be an object, got {type(raw).__name__}")
        kinds = {"version": int, "seed": int, "settings": list}
        for name in (field.name for field in fields(ProgramCertificate)):
            if type(raw.get(name)) is not kinds.get(name, str):
                raise TypeError(f"certificate: {name} must be {kinds.get(name, str).__name__}, got {raw.get(name)!r}")
        words = tuple(raw["settings"])
        if not all(isinstance(word, str) and word.isprintable() for word in (*words, raw["operator"])):
            raise TypeError("certificate: operator and settings must be printable, got others")
        known = {field.name: raw[field.name] for field in fields(ProgramCertificate)}
        return ProgramCertificate(**{**known, "settings": words})
