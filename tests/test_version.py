# SPDX-License-Identifier: Apache-2.0
"""One version everywhere; the commit of a copy is that of its sources, or absent."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

import vdla
from vdla.support.version import VERSION, commit, version_text

HEADING = re.compile(r"^## (?:Unreleased|(?P<version>\S+) \((?P<date>\d{4}-\d\d-\d\d)\))$")


@pytest.fixture
def changelog(root: Path) -> list[re.Match[str]]:
    """The headings of versions, newest first."""
    lines = [line for line in (root / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line[:3] == "## "]
    headings = [HEADING.match(line) for line in lines]
    assert None not in headings, lines
    return [heading for heading in headings if heading]


def test_the_version_is_the_newest_of_the_changelog_or_follows_it(changelog: list[re.Match[str]]) -> None:
    newest, *older = changelog
    ours = Version(VERSION)
    if ours.is_devrelease:
        assert newest["version"] is None, "a version under development needs the heading Unreleased"
        assert ours > Version(older[0]["version"])
    else:
        assert newest["version"] == VERSION


def test_released_versions_descend_with_their_dates(changelog: list[re.Match[str]]) -> None:
    released = [heading for heading in changelog if heading["version"]]
    versions, dates = [Version(each["version"]) for each in released], [each["date"] for each in released]
    assert versions == sorted(set(versions), reverse=True) and dates == sorted(dates, reverse=True)
    assert not any(each.is_prerelease for each in versions)
    assert len(changelog) - len(released) <= 1


def test_the_package_has_the_version_of_the_sources() -> None:
    assert vdla.__version__ == VERSION
    assert str(Version(VERSION)) == VERSION  # as the names of a wheel and an sdist have it


def test_the_citation_is_that_of_the_newest_release(root: Path, changelog: list[re.Match[str]]) -> None:
    text = (root / "CITATION.cff").read_text(encoding="utf-8")
    newest = next(each for each in changelog if each["version"])
    assert f"\nversion: {newest['version']}\ndate-released: {newest['date']}\n" in text


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def copied(root: Path, folder: Path) -> Path:
    """The module of the version in a package folder of its own."""
    (folder / "vdla" / "support").mkdir(parents=True)
    return Path(shutil.copy(root / "vdla" / "support" / "version.py", folder / "vdla" / "support"))


def printed(module: Path) -> str:
    code = f"import runpy; print(runpy.run_path({str(module)!r})['version_text']())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A repository with the module, and the link to a part by which a checkout is known."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    copied(root, tmp_path)
    (tmp_path / "hardware").mkdir()
    (tmp_path / "vdla" / "hardware").symlink_to("../hardware")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "A commit")
    return tmp_path


def test_a_checkout_has_the_commit_of_git(checkout: Path) -> None:
    module = checkout / "vdla" / "support" / "version.py"
    head = git(checkout, "rev-parse", "HEAD")[:12]
    assert printed(module) == f"{VERSION} (commit {head})"
    git(checkout, "tag", "v9.9.9")  # a tag is not the commit
    (checkout / "hardware" / "new.py").write_text("")  # neither is a file that Git does not know a change
    assert printed(module) == f"{VERSION} (commit {head})"
    module.write_text(module.read_text(encoding="utf-8") + "\n")
    assert printed(module) == f"{VERSION} (commit {head}-dirty)"


def test_an_installation_inside_a_foreign_repository_has_the_recorded_commit_or_none(checkout: Path) -> None:
    module = checkout / "vdla" / "support" / "version.py"
    (checkout / "vdla" / "hardware").unlink()
    (checkout / "vdla" / "hardware").mkdir()  # a folder, as in an installed package
    assert printed(module) == VERSION
    module.with_name("commit.txt").write_text("0123456789ab\n")
    assert printed(module) == f"{VERSION} (commit 0123456789ab)"


def test_a_checkout_without_git_has_the_version_alone(root: Path, tmp_path: Path) -> None:
    module = copied(root, tmp_path)
    (tmp_path / "vdla" / "hardware").symlink_to("../hardware")
    (tmp_path / ".git").mkdir()  # no repository
    assert printed(module) == VERSION


def test_the_text_of_this_copy_has_its_commit(root: Path) -> None:
    if not (root / ".git").exists() or shutil.which("git") is None:
        pytest.skip("needs a checkout and git")
    assert version_text() == f"{VERSION} (commit {commit()})"
    assert re.fullmatch(r"[0-9a-f]{12}(-dirty)?", commit() or "")
