# SPDX-License-Identifier: Apache-2.0
"""What studies return: tables, sentences, pictures, all figures; commands print, write and draw
exactly these.

Text and pictures are made in rooms above this one, which are imported where they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from vdla.hardware.config import Config
from vdla.support.text_table import TextTable


class Study:
    """The outcome of a study; `print` shows what its command prints."""

    __slots__ = ()
    _makers: ClassVar[Mapping[str, str]]
    """MODULE:NAME of the function that makes the document, the tables, the notes, and so on."""

    def to_dict(self) -> dict[str, Any]:
        """All figures as JSON-compatible values."""
        document: dict[str, Any] = self._made("document")
        return document

    def tables(self) -> list[TextTable]:
        """The tables of the command, with every row."""
        made: list[TextTable] = self._made("tables")
        return made

    def notes(self) -> list[str]:
        """What the figures mean, and every reason, a sentence each."""
        return list(self._made("notes"))

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.tables()), "\n".join(self.notes())])

    def _made(self, what: str) -> Any:  # noqa: ANN401  as the function
        module, _, name = self._makers[what].partition(":")
        return getattr(import_module(f"vdla.{module}"), name)(self)


class DrawnStudy(Study):
    """A study with a picture."""

    __slots__ = ()

    def picture(self) -> str:
        """The picture of the command, as SVG."""
        drawn: str = self._made("picture")
        return drawn

    def page(self) -> str:
        """A page of HTML with the tables, the picture and the sentences."""
        text: str = self._made("page")
        return text


def studied_machine(config: Config | str) -> Config:
    """A machine, which may be given as the name of a preset; ConfigError for an unknown name."""
    return Config.preset(config) if isinstance(config, str) else config
