# SPDX-License-Identifier: Apache-2.0
"""A wheel of one bitstream for boards: what PYNQ finds of it, and notebooks that use it.

    pip install vdla_board-*.whl vdla_pynq_z2-*.whl
    pynq get-notebooks vdla_pynq_z2

The invariant: a wheel of other bytes has another version, so that pip never takes a bitstream for
one that is installed already. It needs the wheel for boards of the same release, and no network.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import vdla
from vdla.boards.board import Board, BoardError
from vdla.boards.wheel_file import write_wheel
from vdla.hardware.config import Config
from vdla.support.licence import LICENCE_FILE, licence_text

NOTEBOOKS = Path(__file__).resolve().parent / "notebooks"
"""The notebooks that every package has; they name files beside them, not a machine."""
_DIGITS = 12
_RESERVED = ("board",)  # vdla_board is the wheel for boards

_MODULE = """\
# SPDX-License-Identifier: Apache-2.0
\"\"\"{what}\"\"\"
"""
_README = """\
# VDLA {machine} for {title}

The bitstream of the machine `{machine}`, fingerprint {fingerprint}, build {build}, for {title}
({part}) at {clock:g} MHz, with notebooks. On the board, as root:

    pip3 install vdla_board-*.whl {module}-*.whl
    pynq get-notebooks {module}

The notebooks test the board, run a program, and run a small network. In Python:

    import vdla
    model = vdla.load("model.vdla", device="pynq")

finds this bitstream by the name of the machine, as `pynq.Overlay("{machine}.bit")` does. Programs
for it are compiled with `vdla compile --target {machine}` on a computer.
"""


def check_packable(config: Config) -> None:
    """BoardError unless a package can have a machine, and its name."""
    if not (config.name.isascii() and config.name.isidentifier()) or config.name in _RESERVED:
        raise BoardError(
            f"board package: name of the machine must be letters, digits and underscores, and not "
            f"{' or '.join(_RESERVED)}, got {config.name!r}; rename it in the file of --config"
        )
    parts = [part.name for part in (*config.extensions, config.stage) if part is not None]
    if parts:
        raise BoardError(
            f"board package: machine must be without extensions, which the wheel for boards lacks, got "
            f"{', '.join(parts)}; drive the board from a computer, with vdla run --device pynq"
        )


@dataclass(frozen=True, slots=True)
class OverlayPackage:
    """A bitstream and its handoff file, checked, for a machine of a board.

    `examples` are the files that the notebooks use, by name; `programs` is the content of a file of
    known programs, for the self-test.
    """

    board: Board
    config: Config
    build: str
    bitstream: bytes
    handoff: bytes
    examples: Mapping[str, bytes]
    programs: bytes

    def __post_init__(self) -> None:
        check_packable(self.config)

    @property
    def module(self) -> str:
        """The package that Python imports."""
        return f"vdla_{self.config.name}"

    def write(self, folder: Path) -> Path:
        """The path of the wheel, written to a folder that is made if need be."""
        contents = dict(self._contents())
        version = f"{vdla.__version__}+bit{_digest(contents)}"
        return write_wheel(folder, f"{self.module}-{version}", contents, self._metadata(version), self._entry_points())

    def _contents(self) -> Iterator[tuple[str, bytes]]:
        module, name = self.module, self.config.name
        machine = json.dumps({**self.config.to_dict(), "fingerprint": self.config.fingerprint}, indent=2).encode()
        yield f"{module}/__init__.py", _MODULE.format(what=f"The machine {name} for {self.board.title}.").encode()
        yield f"{module}/{LICENCE_FILE}", licence_text().encode()
        yield f"{module}/README.md", self._readme().encode()
        overlay = f"{module}/{name}"
        yield f"{overlay}/{name}.bit", self.bitstream
        yield f"{overlay}/{name}.hwh", self.handoff
        yield f"{overlay}/{name}.json", machine
        yield f"{overlay}/{self.config.fingerprint}.npz", self.programs
        yield f"{module}/notebooks/__init__.py", _MODULE.format(what="Notebooks for `pynq get-notebooks`.").encode()
        files = {path.name: path.read_bytes() for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
        for file, content in {**files, **self.examples, "machine.json": machine}.items():
            yield f"{module}/notebooks/{file}", content

    def _readme(self) -> str:
        return _README.format(
            machine=self.config.name,
            title=self.board.title,
            part=self.board.part,
            clock=self.config.clock_mhz,
            fingerprint=self.config.fingerprint,
            build=self.build,
            module=self.module,
        )

    def _metadata(self, version: str) -> str:
        return (
            f"Metadata-Version: 2.1\nName: {self.module.replace('_', '-')}\nVersion: {version}\n"
            f"Summary: The bitstream of VDLA's machine {self.config.name} for {self.board.title}, with notebooks\n"
            f"License: Apache-2.0\nLicense-File: {LICENCE_FILE}\nRequires-Python: >=3.10\n"
            f"Requires-Dist: vdla-board=={vdla.__version__}\nDescription-Content-Type: text/markdown\n\n"
            f"{self._readme()}"
        )

    def _entry_points(self) -> str:
        """Where PYNQ looks: `Overlay(NAME)` for bitstreams, `pynq get-notebooks` for notebooks."""
        module = self.module
        return f"[pynq.overlays]\n{module} = {module}\n\n[pynq.notebooks]\n{module} = {module}.notebooks\n"


def _digest(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:_DIGITS]
