# SPDX-License-Identifier: Apache-2.0
"""Several extensions on the same layers: each alone, and all on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vdla.compiler.extensions import ExtensionError, Source
from vdla.hardware.config import Config, ConfigError
from vdla.runtime.studies.layers import EvaluateError, GivenLayer, given_layers
from vdla.runtime.studies.verdict import ExtensionVerdict, LayerVerdict, evaluate


@dataclass(frozen=True, slots=True)
class JointVerdict:
    """A verdict on each extension alone, of the same layers, and on all of them together; None with
    the reason where one machine cannot have all.
    """

    alone: tuple[ExtensionVerdict, ...]
    together: ExtensionVerdict | None
    reason: str = ""

    @property
    def verdicts(self) -> dict[str, ExtensionVerdict]:
        """All verdicts by the instructions that they judge, or "together"."""
        result = {", ".join(part.name for part in verdict.added): verdict for verdict in self.alone}
        return result if self.together is None else {**result, "together": self.together}

    @property
    def layers(self) -> list[dict[str, LayerVerdict]]:
        """Each layer by the same names."""
        verdicts = self.verdicts
        rows = zip(*(verdict.layers for verdict in verdicts.values()), strict=True)
        return [dict(zip(verdicts, row, strict=True)) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """All verdicts as a document."""
        document: dict[str, Any] = {name: verdict.to_dict() for name, verdict in self.verdicts.items()}
        return document if self.together is not None else {**document, "together": {"reason": self.reason}}

    def __repr__(self) -> str:
        counts = {name: sum(layer.helps for layer in verdict.layers) for name, verdict in self.verdicts.items()}
        helps = ", ".join(f"{name} helps {count}" for name, count in counts.items())
        return f"<JointVerdict on {self.alone[0].before.name}: {helps} of {len(self.layers)} layers>"


def evaluate_several(
    sources: Sequence[Source],
    layers: Sequence[GivenLayer],
    config: Config | str,
    **options: Any,  # noqa: ANN401  those of `evaluate`
) -> JointVerdict:
    """The verdicts on several extensions, each as `vdla.evaluate` gives it with the same options.

    Raises:
        EvaluateError: fewer than two extensions, or as `vdla.evaluate`.
        ExtensionError: a declaration does not fit the machine.
    """
    if len(sources) < 2:
        raise EvaluateError(f"evaluate_several: extensions must be at least two, got {len(sources)}")
    chosen = given_layers(layers)
    alone = tuple(evaluate(source, chosen, config, **options) for source in sources)
    try:
        return JointVerdict(alone, evaluate(tuple(sources), chosen, config, **options))
    except (ConfigError, ExtensionError) as error:
        return JointVerdict(alone, None, str(error))
