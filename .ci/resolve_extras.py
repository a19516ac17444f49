# SPDX-License-Identifier: Apache-2.0
"""Resolve vdla and each of its extras from the package index, with an old pip and the newest.

    .ci/resolve_extras.py                          with this interpreter
    .ci/resolve_extras.py python3.10 python3.13    with others

Nothing is installed but pip itself, into temporary environments. An old pip chooses other versions
than the newest does: a lower bound that is too low can end in versions that exclude each other. An
old pip also downloads what it resolves, so that it skips the extras in LARGE.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
OLD_PIP = {(3, 10): "23.0", (3, 11): "23.0"}  # Debian 12 has 23.0 for its Python 3.11
FIRST_PIP = "23.2.1"  # of Python 3.12 and later
METADATA_PIP = (23, 2)  # the first that reads metadata without the rest of a wheel
LARGE = ("torch",)  # gigabytes of wheels: an older pip would download them all


def extras() -> list[str]:
    """The names of the extras; the empty name for none."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return ["", *settings["project"]["optional-dependencies"]]


def output(*command: str | Path) -> str:
    """What a command prints; CalledProcessError if it fails."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def environment(python: str, pip: str, folder: Path) -> Path:
    """The interpreter of a new environment with a version of pip, as a requirement."""
    output(python, "-m", "venv", folder)
    own = folder / "bin" / "python"
    output(own, "-m", "pip", "install", "--quiet", "--upgrade", pip)
    return own


def resolved(python: Path, extra: str) -> str:
    """Empty, or the last line of pip's complaint."""
    what = f"{ROOT}[{extra}]" if extra else str(ROOT)
    command = [python, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no output"])[-1]


def pips(python: str) -> tuple[str, str]:
    """The requirements of the old pip and the newest for an interpreter."""
    version = output(python, "-c", "import sys; print(*sys.version_info[:2])").split()
    return f"pip=={OLD_PIP.get((int(version[0]), int(version[1])), FIRST_PIP)}", "pip"


def release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version of pip."""
    return tuple(int(number) for number in version.split(".")[:2])


def main(pythons: Sequence[str]) -> int:
    """Print a line per interpreter, pip and extra; 1 if one cannot be resolved."""
    failures = 0
    for python in pythons or [sys.executable]:
        for pip in pips(python):
            with tempfile.TemporaryDirectory() as folder:
                own = environment(python, pip, Path(folder) / "venv")
                version = output(own, "-m", "pip", "--version").split()[1]
                for extra in extras():
                    if extra in LARGE and release(version) < METADATA_PIP:
                        print(python, f"pip {version}", extra, "skipped: this pip would download gigabytes", flush=True)
                        continue
                    start = time.perf_counter()
                    complaint = resolved(own, extra)
                    failures += bool(complaint)
                    took = f"{time.perf_counter() - start:.0f} s"
                    print(python, f"pip {version}", extra or "(none)", complaint or f"resolved in {took}", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
