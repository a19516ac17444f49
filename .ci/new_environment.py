# SPDX-License-Identifier: Apache-2.0
"""Makes a virtual environment with the pip that this Python brings.

    python3 .ci/new_environment.py FOLDER

`python3 -m venv` runs pip from its archive to install pip, which takes three seconds; a wheel of
pure Python may as well be unpacked. Where Python has no such wheel, venv does the work.
"""

from __future__ import annotations

import ensurepip
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

_PIP = """\
#!{python}
import sys
from pip._internal.cli.main import main
sys.exit(main())
"""


def _wheel() -> Path | None:
    """The wheel of pip: of the system where it keeps wheels for this purpose, else of Python."""
    folder = sysconfig.get_config_var("WHEEL_PKG_DIR") or Path(ensurepip.__file__).parent / "_bundled"
    return max(Path(folder).glob("pip-*-py3-none-any.whl"), default=None)


def make(folder: Path) -> None:
    """Make the environment with pip."""
    wheel = _wheel()
    venv.create(folder, symlinks=True, with_pip=wheel is None)
    if wheel is None:
        return
    python, script = folder.absolute() / "bin" / "python", folder / "bin" / "pip"
    packages = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    ZipFile(wheel).extractall(packages.strip())
    script.write_text(_PIP.format(python=python), encoding="utf-8")
    script.chmod(0o755)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
