# SPDX-License-Identifier: Apache-2.0
"""The page: one file with its style, its script and the packed recordings of one run or of two.

It refers to nothing outside, so that it works offline. The browser must know DecompressionStream:
Chrome 80, Firefox 113, Safari 16.4 or newer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from vdla.viewer.packed_columns import pack_columns
from vdla.viewer.recording import Recording

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style></head>
<body>
{body}
{data}
<script>
{script}</script>
</body>
</html>
"""


_SCRIPTS = ("recording.js", "timeline.js", "heat_maps.js", "panels.js", "viewer.js")


def viewer_page(recordings: Sequence[Recording]) -> str:
    """The page of one run, or of two side by side."""
    title = " and ".join(dict.fromkeys(one.title for one in recordings))
    data = "\n".join(_data(number, one) for number, one in enumerate(recordings))
    script = "\n".join(map(_source, _SCRIPTS))
    return _PAGE.format(
        title=escape(title), style=_source("style.css"), body=_source("body.html"), data=data, script=script
    )


def _source(name: str) -> str:
    return files("vdla.viewer").joinpath(name).read_text(encoding="utf-8")


def _data(number: int, one: Recording) -> str:
    times, details = pack_columns(one.times), pack_columns(one.details)
    head = json.dumps({**one.head, "times": times[0], "details": details[0]})
    return "\n".join(
        f'<script type="text/plain" id="{name}{number}">{text}</script>'
        for name, text in (("head", head.replace("<", "\\u003c")), ("times", times[1]), ("details", details[1]))
    )
