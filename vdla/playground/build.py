# SPDX-License-Identifier: Apache-2.0
"""Writes the playground: the page, the worker, Python with NumPy, and the sources of VDLA.

Packages of npm are those of `browser/package-lock.json`, whose hashes npm compares. What comes from
them is kept in a cache, by a hash of everything that it depends on.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from vdla.puzzles import NAMES, Puzzle, puzzle
from vdla.support.cache import build_once, user_cache
from vdla.support.errors import Error

_ROOT = Path(__file__).resolve().parents[1]
_BROWSER = Path(__file__).with_name("browser")
_PAGE = ("index.html", "playground.css", "playground.js")
_TIMEOUT_S = 600.0
_HOME = "usr/lib/python3.11/"
_NOT_NEEDED = ("ctypes/", "unittest/test/", "xmlrpc/", "wsgiref/", "lib2to3/", "idlelib/", "ensurepip/")
_NOT_OF_NUMPY = ("/tests/", "/f2py/", "/distutils/", "/include/", "/doc/", "/__pycache__/", "/array_api/")
_FOLDERS = ("compiler", "hardware", "playground", "puzzles", "runtime", "simulator", "support")
_BUNDLE = (
    "--bundle", "--minify", "--format=iife", "--platform=browser", "--legal-comments=linked",
    "--alias:path=path-browserify", "--alias:stream=readable-stream", "--alias:util=./util.js",
    "--alias:assert=./assert.js", "--inject:./node.js", '--define:__dirname="/"', "--log-level=warning",
)  # fmt: skip
_FIRST = """\
<p>A product of 128 rows of 256 inputs with 256 x 256 weights: what is computed, how, in one virtual
thread or in two that take turns, and a comparison with NumPy. The machine is that of a PYNQ-Z1.
Change anything, and run it: the cycles are exact, the same as those of the hardware. <a
href="../first-steps.html#a-first-tensor-expression">First steps</a> explains the lines.</p>
"""
_NO_VERILATOR = (
    "This try is hardware, which Verilator runs; a browser has no Verilator. Install VDLA and its extra rtl, then "
    "grade your file: vdla puzzle datapath FILE."
)


class PlaygroundError(Error, RuntimeError):
    """A playground that cannot be built: npm is missing, or failed."""


def build_playground(folder: Path) -> None:
    """Write all files of the playground to a folder, which is made; it works from any web server.

    PlaygroundError where npm is missing or its packages cannot be had.
    """
    runtime = _runtime()
    shutil.copytree(runtime, folder, dirs_exist_ok=True)
    for name in _PAGE:
        shutil.copy(_BROWSER / name, folder / name)
    (folder / "entries.json").write_text(json.dumps(list(_entries())), encoding="utf-8")
    with ZipFile(folder / "vdla.zip", "w", ZIP_DEFLATED) as archive:
        for path, name in _sources():
            archive.write(path, f"lib/vdla/{name}")


# --- what the page shows --------------------------------------------------------------------------


def _entries() -> Iterator[dict[str, object]]:
    """The first expression and the puzzles, as the page lists them."""
    yield {
        "kind": "program", "name": "first-expression", "file": "expression.py", "title": "A first tensor expression",
        "html": _FIRST, "start": (_BROWSER / "first_expression.txt").read_text(encoding="utf-8"), "missing": "",
        "hints": [],
    }  # fmt: skip
    for name in NAMES:
        yield _entry(puzzle(name))


def _entry(one: Puzzle) -> dict[str, object]:
    from markdown_it import MarkdownIt

    html = MarkdownIt().render
    return {
        "kind": "puzzle", "name": one.name, "title": one.title, "html": html(one.task), "start": one.start,
        "hints": [html(hint) for hint in one.hints], "limit": one.limit, "best": one.best,
        "missing": _NO_VERILATOR if one.suffix == ".sv" else "",
    }  # fmt: skip


def _sources() -> Iterator[tuple[Path, str]]:
    """The modules of the package that the browser may import, and their names in it."""
    for path in sorted(_ROOT.glob("*.py")):
        yield path, path.name
    for folder in _FOLDERS:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            yield path, f"{folder}/{path.relative_to(_ROOT / folder).as_posix()}"


# --- Python in the browser ------------------------------------------------------------------------


def _runtime() -> Path:
    """A folder with the worker, Python and NumPy."""
    texts = [path.read_bytes() for path in (Path(__file__), *sorted(_BROWSER.glob("*.js*")))]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
    return build_once(user_cache("playground") / digest, _built, Path.is_dir)


def _built(folder: Path) -> Path:
    work, made = folder / "work", folder / "runtime"
    shutil.copytree(_BROWSER, work)
    made.mkdir()
    _npm(work, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    _npm(work, "exec", "--offline", "--", "esbuild", "worker.js", *_BUNDLE, f"--outfile={made / 'worker.js'}")
    packages = work / "node_modules"
    python = packages / "python-wasm" / "dist"
    shutil.copy(python / "python.wasm", made)
    shutil.copy(packages / "@cowasm" / "kernel" / "dist" / "kernel" / "kernel.wasm", made)
    (made / "licences.txt").write_text("\n".join(_licences(packages)), encoding="utf-8")
    with ZipFile(made / "python.zip", "w", ZIP_DEFLATED) as archive:
        _add_library(archive, python / "python-stdlib.zip")
        _add_numpy(archive, python / "numpy.tar.xz")
    return made


def _licences(packages: Path) -> Iterator[str]:
    """Those of the packages that are served."""
    for path in sorted(packages.rglob("LICEN[CS]E*")):
        yield f"--- {path.parent.relative_to(packages).as_posix()}\n\n{path.read_text(encoding='utf-8')}"


def _npm(folder: Path, *arguments: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise PlaygroundError("playground: npm must be installed, got none (apt-get install npm)")
    done = subprocess.run(
        [npm, *arguments], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIMEOUT_S
    )
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no output"])[0]
        raise PlaygroundError(f"playground: npm {arguments[0]} must work, got {last}; it needs a network once")


def _add_library(archive: ZipFile, path: Path) -> None:
    """Python's own modules, without those that serve nothing here."""
    with ZipFile(path) as library:
        for name in library.namelist():
            if not name.endswith("/") and not name.startswith(_NOT_NEEDED):
                archive.writestr(_HOME + name, library.read(name))


def _add_numpy(archive: ZipFile, path: Path) -> None:
    with tarfile.open(path) as packed:
        for member in packed:
            file = packed.extractfile(member)
            if file is not None and not any(part in f"/{member.name}" for part in _NOT_OF_NUMPY):
                archive.writestr(f"lib/{member.name}", file.read())
