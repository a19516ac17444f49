# SPDX-License-Identifier: Apache-2.0
"""Certificates in files: `vdla certify --json FILE` writes them, `--certificate FILE` checks them.

Nothing in such a file is trusted: what is proven is computed again, with the seed of the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.commands import CommandError
from vdla.commands.files import read_text

VERSION = 1
PRIME = "2^61 - 1"
_MOST = 1 << 63  # seeds are below it
_HASHES = ("program", "expression")


@dataclass(frozen=True, slots=True)
class KeptCertificate:
    """The seed of a certificate in a file, and what it is for."""

    path: Path
    seed: int
    content: Mapping[str, Any]

    @staticmethod
    def read(path: Path) -> KeptCertificate:
        """The certificate in a file.

        Raises:
            CommandError: it is none, of another version or prime, or one that does not hold.
        """
        content = _json(path)
        if not isinstance(content, dict) or "certified" not in content:
            raise CommandError(f"{path}: file must be a certificate (vdla certify ... --json {path}), got another one")
        if content["certified"] is not True:
            raise CommandError(f"{path}: certificate must be one that holds, got one that does not")
        for what, wanted in (("version", VERSION), ("prime", PRIME)):
            if content.get(what) != wanted:
                raise CommandError(f"{path}: {what} of the certificate must be {wanted}, got {content.get(what)}")
        seed = content.get("seed")
        if type(seed) is not int or not 0 <= seed < _MOST:
            raise CommandError(f"{path}: seed of the certificate must be an integer from 0 to 2^63 - 1, got {seed!r}")
        return KeptCertificate(path, seed, content)

    def require_same(self, made: Mapping[str, Any]) -> None:
        """CommandError unless it is for the programs and expressions of a certificate made now."""
        kept, wanted = (list(_parts(content)) for content in (self.content, made))
        if len(kept) != len(wanted):
            rule = f"certificate must be for {len(wanted)} programs"
            raise CommandError(f"{self.path}: {rule}, got one for {len(kept)}")
        for (name, hashes), (wanted_name, wanted_hashes) in zip(kept, wanted, strict=True):
            for what, needed, got in zip(_HASHES, wanted_hashes, hashes, strict=True):
                if needed != got:
                    where = f" of {wanted_name}" if name else ""
                    rule = f"certificate must be for {what} {needed}{where}"
                    raise CommandError(f"{self.path}: {rule}, got one for {what} {got}")


def _json(path: Path) -> Any:  # noqa: ANN401  JSON
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise CommandError(f"{path}: file must be JSON (vdla certify ... --json {path}), got other text") from None


def _parts(content: Mapping[str, Any]) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Each program of a certificate: the region, none of an operator, and the hashes."""
    regions = content.get("regions", [content.get("certificate")])
    for region in regions if isinstance(regions, list) else []:
        known = region if isinstance(region, dict) else {}
        yield str(known.get("region", "")), tuple(known.get(what) for what in _HASHES)
