# SPDX-License-Identifier: Apache-2.0
"""The playground as files of the site, below `playground`; its page has the link that opens it.

Where npm or its packages cannot be had, the site is built without it, and the page says so.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from vdla.playground.build import build_playground
from vdla.support.errors import Error

PAGE = "playground.md"
_PLACE = "*Here, the site that `make docs` builds has the link that opens it.*"
_LINK = "[Open the playground](playground/index.html)"
_NONE = "This site was built without the playground: there was no npm, or no network."
_LOG = logging.getLogger("mkdocs.hooks")
_BUILT: list[tempfile.TemporaryDirectory[str]] = []  # until the files have been copied


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files, if they can be built."""
    _BUILT.append(tempfile.TemporaryDirectory(prefix="vdla-playground-"))
    folder = Path(_BUILT[-1].name)
    try:
        build_playground(folder)
    except Error as error:
        _LOG.info("the site is built without the playground: %s", error)
        return files
    for path in sorted(folder.iterdir()):
        files.append(File.generated(config, f"playground/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The link that opens the playground, or why there is none."""
    if page.file.src_uri != PAGE:
        return markdown
    return markdown.replace(_PLACE, _LINK if "playground/index.html" in files.src_uris else _NONE)


def on_post_build(config: MkDocsConfig) -> None:
    """Removes what was copied."""
    while _BUILT:
        _BUILT.pop().cleanup()
