# SPDX-License-Identifier: Apache-2.0
"""The package is complete: every folder is listed, and a wheel works without the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from vdla.support.version import VERSION, version_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("hardware", "compiler", "simulator", "runtime", "boards", "benchmarks", "verification")


@pytest.fixture(scope="module")
def settings() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def source_folder(settings: dict, package: str) -> Path:
    """The folder in which setuptools finds a package: the longest prefix in package-dir decides."""
    parts = package.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in settings["package-dir"]:
            return ROOT.joinpath(settings["package-dir"][prefix], *parts[length:])
    raise AssertionError(f"{package} is mapped nowhere")


def test_every_folder_with_modules_is_a_listed_package(settings: dict) -> None:
    folders = (
        *FOLDERS,
        "vdla/charts",
        "vdla/commands",
        "vdla/debugger",
        "vdla/networks",
        "vdla/notebook",
        "vdla/playground",
        "vdla/puzzles",
        "vdla/support",
        "vdla/viewer",
    )
    found = {path.parent for folder in folders for path in (ROOT / folder).rglob("*.py")}
    listed = {source_folder(settings, package) for package in settings["packages"]}
    assert found | {ROOT / "vdla"} == listed


def test_every_package_has_a_docstring(settings: dict) -> None:
    assert all(import_module(package).__doc__ for package in settings["packages"])


@pytest.mark.parametrize("folder", FOLDERS)
def test_package_links_lead_to_the_folders(folder: str) -> None:
    link = ROOT / "vdla" / folder
    assert link.is_symlink()
    assert not Path(os.readlink(link)).is_absolute()
    assert link.resolve() == ROOT / folder


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    arguments = [str(part) for part in command]
    everything = {**os.environ, "PYTHONPATH": "", **environment}  # what is installed, not these sources
    done = subprocess.run(arguments, capture_output=True, text=True, env=everything, timeout=300, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_modules_and_paths_in_the_makefile_exist() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    modules, tests = re.findall(r"-m (vdla[\w.]*)", text), re.findall(r"tests/[\w/.]+", text)
    assert modules and all(find_spec(module) for module in modules)
    assert tests and all((ROOT / path).exists() for path in tests)


def test_what_make_installs_first_has_the_bounds_of_the_project(tmp_path: Path) -> None:
    recipe = run("make", "-n", f"VENV={tmp_path}/venv", tmp_path / "venv" / ".base-installed")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    first = re.findall(r'"((?:setuptools|numba)[^"]*)"', recipe)
    assert [re.split(r"\W", one)[0] for one in first] == ["setuptools", "numba"]
    assert all(f'"{one}"' in text for one in first)


def test_a_new_environment_has_pip_as_a_module_and_as_a_command(tmp_path: Path) -> None:
    run(sys.executable, ROOT / ".ci" / "new_environment.py", tmp_path / "venv")
    said = [
        run(tmp_path / "venv" / "bin" / "python", "-m", "pip", "--version"),
        run(tmp_path / "venv" / "bin" / "pip", "--version"),
    ]
    assert said[0] == said[1] and str(tmp_path / "venv") in said[0]


@pytest.mark.parametrize(("variable", "pip_compiles"), [("", "0"), ("1", "1")])
def test_pip_compiles_bytecode_only_where_python_keeps_none(tmp_path: Path, variable: str, pip_compiles: str) -> None:
    venv = tmp_path / "venv"
    recipe = run("make", "-n", f"VENV={venv}", venv / ".base-installed", PYTHONDONTWRITEBYTECODE=variable)
    assert re.findall(r"PIP_COMPILE=(\d)", recipe) == [pip_compiles]
    folders = [folder for line in re.findall(r"compileall -q ([\w ]+)", recipe) for folder in line.split()]
    assert bool(folders) == (pip_compiles == "0") and all((ROOT / folder).is_dir() for folder in folders)


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_development_tools_have_the_bounds_of_the_extras(project: dict) -> None:
    """A distribution that two extras name has one bound, or an old pip may resolve one only."""
    bounds: dict[str, set[str]] = {}
    for line in chain(project["dependencies"], *project["optional-dependencies"].values()):
        requirement = Requirement(line)
        bounds.setdefault(requirement.name, set()).add(str(requirement.specifier))
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


def test_every_requirement_has_a_lower_bound_and_a_reason(project: dict) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    seen: set[str] = set()
    for line in chain(project["dependencies"], *project["optional-dependencies"].values()):
        assert any(one.operator in (">=", "==", "<") for one in Requirement(line).specifier), line
        written = next(each for each in text.splitlines() if f'"{line}"' in each)
        assert "#" in written or Requirement(line).name in seen, line
        seen.add(Requirement(line).name)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


@pytest.mark.long
def test_the_sdist_holds_the_sources_once(distributions: Path) -> None:
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    assert {"hardware/config.py", "LICENSE", "CHANGELOG.md", "vdla/support/commit.txt"} <= set(names)
    assert "compiler/operators/workloads.csv" in names
    assert len(names) == len(set(names))


@pytest.mark.long
def test_the_wheel_works_without_the_repository(distributions: Path, tmp_path: Path) -> None:
    """In a new environment with the libraries of this one."""
    wheel = next(distributions.glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    assert {"vdla/py.typed", "vdla/hardware/rtl/vdla.sv", "vdla/runtime/devices/harness/waves/lz4.h"} <= set(names)
    assert {"vdla/LICENSE", f"vdla-{VERSION}.dist-info/licenses/LICENSE"} <= set(names)
    assert {"vdla/boards/pynq_z1/board.json", "vdla/boards/vivado/build.tcl"} <= set(names)
    venv.create(tmp_path / "venv")
    scripts = tmp_path / "venv" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python")
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", "--quiet", wheel)
    borrow_libraries(tmp_path / "venv")
    assert run(scripts / "vdla", "--version", cwd=tmp_path) == f"vdla {version_text()}\n"
    where = "import vdla.hardware; print(vdla.hardware.__file__)"
    assert str(tmp_path) in run(scripts / "python", "-c", where, cwd=tmp_path)
    assert "self-test" in run(scripts / "vdla", "doctor", COLUMNS="120", cwd=tmp_path)


def borrow_libraries(environment: Path) -> None:
    """Adds the libraries of this interpreter to an environment, after its own."""
    own = next((environment / "lib").glob("python*/site-packages"))
    (own / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
