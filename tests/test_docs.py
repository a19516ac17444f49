# SPDX-License-Identifier: Apache-2.0
"""Pages with commands and examples show their actual output; every option is documented."""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from helpers.documents import check_page
from helpers.opencl_functions import needs_opencl
from helpers.ptx import needs_ptxas

from vdla.cli import parsers
from vdla.commands import COMMANDS, EXIT_CODES, load
from vdla.commands.board_command import SUBCOMMANDS, load_subcommand
from vdla.networks.digits_images import held_out_digits, training_digits
from vdla.networks.registry import NETWORKS
from vdla.verification.tflite_models.tiny import TINY_MODELS
from vdla.verification.tflite_models.writer import TfliteWriter

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "pynq-z2.md", "mapping.md", "tuning.md", "board-selftest.md", "boards.md", "overview.md", "commands.md",
    "limits.md", "ir.md", "machine.md", "programs.md", "simulator.md", "networks.md", "quantisation.md",
    "graph.md", "intrinsics.md", "extensions.md", "extension-int4.md", "evaluating.md", "exploring.md",
    "extension-sad.md", "wider-block.md", "extension-softmax.md", "extension-lut.md", "extension-depthwise.md",
    "grid-primitives.md", "extension-xnor.md", "extension-hard_swish.md", "extension-max_pool.md",
    "extension-rms_norm.md", "energy.md", "certificates.md", "extension-sparse.md", "extension-argmax.md",
    "extension-block_floating.md", "extension-bit_serial.md", "results-as-inputs.md", "instruction-limits.md",
    "extension-prelu.md", "plug-ins.md", "viewer.md", "debugging.md", "language-models.md", "decoder-on-a-board.md",
)  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_what_its_code_prints(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    check_page(ROOT / "docs" / name, tmp_path, request.config.getoption("--update-golden"))


def test_the_page_of_puzzles(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it solves is kept beside it, not in the home of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    check_page(ROOT / "docs" / "puzzles.md", tmp_path, request.config.getoption("--update-golden"))


@needs_opencl
@needs_ptxas
def test_the_page_of_kernels_on_a_gpu(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    check_page(ROOT / "docs" / "gpu.md", tmp_path, request.config.getoption("--update-golden"))


def test_the_way_from_a_model_to_frames_per_second(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The page begins where PyTorch ends: with an exported file, here built without it."""
    training, held_out = training_digits(), held_out_digits()
    (tmp_path / "digits.onnx").write_bytes(NETWORKS["digits"].build().SerializeToString())
    np.save(tmp_path / "images.npy", training.images[:32])
    np.save(tmp_path / "held_out.npy", held_out.images[:100])
    np.save(tmp_path / "labels.npy", held_out.labels[:100])
    check_page(ROOT / "docs" / "deploy.md", tmp_path, request.config.getoption("--update-golden"))


def test_the_page_of_tensorflow_lite(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Runs on a network with weights from a seed, and on a file of operators that are refused."""
    pytest.importorskip("tflite")
    network = TINY_MODELS["keyword_spotting"](0)
    (tmp_path / "keywords.tflite").write_bytes(network.content)
    np.save(tmp_path / "sound.npy", network.data(0))
    (tmp_path / "others.tflite").write_bytes(refused_operators())
    check_page(ROOT / "docs" / "tflite.md", tmp_path, request.config.getoption("--update-golden"))


def refused_operators() -> bytes:
    writer = TfliteWriter()
    x, a, b = (writer.tensor((1, 4), scale=0.1, name=name) for name in ("x", "angles", "states"))
    writer.operator("SIN", (x,), (a,))
    writer.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", (x,), (b,))
    return writer.bytes((x,), (a, b))


def section(command: str) -> str:
    """The section of a command in docs/commands.md."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    parts = re.split(r"^###? (.*)$", page, flags=re.MULTILINE)[1:]
    return next(
        text for head, text in zip(parts[::2], parts[1::2], strict=True) if f"vdla {command}" in head.split(", ")
    )


def documented(command: str) -> set[str]:
    """The options and arguments in the tables of a command; a table may name its command."""
    text = section(command)
    tables = re.findall(
        r"^\| option(?: of `vdla (\w+)`)? \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE
    )
    rows = [row for owner, body in tables if owner in ("", command) for row in body.splitlines()]
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])}


def declared(parser: argparse.ArgumentParser) -> set[str]:
    """The options and arguments of a parser, as its help shows them."""
    actions = [action for action in parser._actions if action.dest not in ("help", "debug")]
    return {form for action in actions for form in forms(action)}


def parser_of(command: str) -> argparse.ArgumentParser:
    _, by_name = parsers({command: load(command)})
    return by_name[command]


def forms(action: argparse.Action) -> list[str]:
    value = f" {action.metavar}" if action.metavar and action.nargs != 0 else ""
    several = " ..." if action.nargs == "+" and action.option_strings else ""
    if not action.option_strings:
        return [str(action.metavar)]
    return [f"{option}{value or _destination(action)}{several}" for option in action.option_strings]


def _destination(action: argparse.Action) -> str:
    return "" if action.nargs == 0 else f" {action.dest.upper()}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_documented(command: str) -> None:
    assert documented(command) == declared(parser_of(command))


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_option_of_a_subcommand_is_documented(name: str) -> None:
    parser = argparse.ArgumentParser()
    load_subcommand(name).add_arguments(parser)
    assert documented(f"board {name}") == declared(parser)


def test_documented_exit_codes_equal_those_of_the_help() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE)
    help_text = " ".join(EXIT_CODES.split())
    assert len(table) == 5
    for code, meaning in table:
        assert f"{code} {meaning}" in help_text


MARKDOWN = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
WIDTH = 100


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_prose_wraps_at_100_columns(path: Path) -> None:
    """Tables, code and lines that hold little more than a link are free."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    words = [re.sub(r"\]\([^)]*\)", "]", line) for line in prose.splitlines() if not line.startswith(("|", "    "))]
    assert [line for line in words if len(line) > WIDTH] == []


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub forms them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", path.read_text(encoding="utf-8"))
    for name, anchor in links:
        target = path.parent / name if name else path
        assert target.exists(), name
        assert not anchor or anchor in anchors(target), f"{name}#{anchor}"


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_every_source_file_that_a_page_names_exists(path: Path) -> None:
    """Both `folder/name.py` and the bare name of a file."""
    for name in re.findall(r"`([\w/]+\.(?:py|sv|ll))`", path.read_text(encoding="utf-8")):
        assert (ROOT / name).exists() or ("/" not in name and any(ROOT.glob(f"*/**/{name}"))), name


def test_pages_and_examples_import_the_public_surface_only() -> None:
    public = {
        "vdla",
        *(f"vdla.{name}" for name in ("course", "definitions", "devices", "graph", "grid", "intrinsics", "isa")),
        *(f"vdla.{name}" for name in ("native", "operators", "te", "templates")),
    }
    paths = (*MARKDOWN, *(ROOT / "docs").rglob("*.ipynb"), *(ROOT / "examples").glob("*.py"))
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    found = {(name, *each) for name, text in texts.items() for each in imports(text)}
    assert len(found) > 10
    assert {(name, module) for name, module, _ in found if module not in public} == set()
    names = {(name, module, each) for name, module, every in found for each in every if not is_public(module, each)}
    assert names == set()


def imports(text: str) -> set[tuple[str, tuple[str, ...]]]:
    """The modules of VDLA that lines import, and which names; indented lines and cells count."""
    lines = re.findall(r'^[\s"]*(?:from (vdla[\w.]*) import \(?([\w, ]*)|import (vdla(?:\.\w+)*))', text, re.MULTILINE)
    words = ((module or plain, re.sub(r" as \w+", "", names)) for module, names, plain in lines)
    return {(module, tuple(filter(None, re.split(r"[, ]+", names)))) for module, names in words}


def is_public(module: str, name: str) -> bool:
    return name in import_module(module).__all__


def test_imports_of_indented_blocks_and_cells_are_found() -> None:
    text = 'x\n    from vdla.runtime.executor import a, b as c\n   "import vdla\\n",\nfrom vdla import compile\n'
    assert imports(text) == {("vdla.runtime.executor", ("a", "b")), ("vdla", ()), ("vdla", ("compile",))}
