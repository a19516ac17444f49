# SPDX-License-Identifier: Apache-2.0
"""The environment of tools: a stock Debian has no `python` on its PATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vdla.support.processor import tool_environment


@pytest.fixture
def no_python(monkeypatch, tmp_path):
    """A PATH without programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_tool_finds_the_python_of_this_environment(no_python):
    code = "import sys; print(sys.prefix)"
    command = ["/bin/sh", "-c", f"python -c '{code}'"]
    done = subprocess.run(command, capture_output=True, text=True, env=tool_environment(), check=True)
    assert done.stdout.strip() == sys.prefix


def test_tools_keep_the_rest_of_the_environment(no_python):
    environment = tool_environment(VERILATOR_ROOT="/v")
    assert environment["PATH"].split(os.pathsep)[1:] == [str(no_python)]
    assert environment["VERILATOR_ROOT"] == "/v"
    assert {**os.environ, "VERILATOR_ROOT": "/v", "PATH": environment["PATH"]} == environment
    assert tool_environment(PATH="/a")["PATH"].split(os.pathsep)[1:] == ["/a"]


def test_without_a_path_tools_get_that_of_this_environment(monkeypatch):
    monkeypatch.delenv("PATH")
    assert tool_environment()["PATH"] == str(Path(sys.executable).parent)
