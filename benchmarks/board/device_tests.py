"""The device tests through the unmodified client of PYNQ, on a virtual board with the RTL.

They are the tests of the repository, run by pytest in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from vdla.benchmarks.board.virtual_client import VirtualClientError, require_pynq

TESTS = Path(__file__).resolve().parents[2] / "tests" / "runtime" / "devices" / "test_device.py"
FABRIC = "VDLA_TEST_FABRIC"
"""The variable that chooses what is behind the virtual board of the tests."""

_TIMEOUT_S = 1800
_COUNTS = ("tests", "skipped", "failures", "errors")
_CHOICE = "pynq and not ://"


def device_tests(fabric: str = "rtl") -> dict[str, int]:
    """`device_tests` that ran, and `device_tests_failed`."""
    require_pynq()
    if not TESTS.is_file() or find_spec("pytest") is None:
        raise VirtualClientError("bench board: the tests of the repository and pytest must be here, got neither or one")
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-k", _CHOICE, f"--junitxml={report}", str(TESTS)]
        done = subprocess.run(
            command,
            cwd=TESTS.parents[3],
            env={**os.environ, FABRIC: fabric},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if not report.exists():
            raise VirtualClientError(f"bench board: pytest must write a report, got exit code {done.returncode}")
        suite = ElementTree.parse(report).getroot()
    counts = {name: sum(int(each.get(name, 0)) for each in suite.iter("testsuite")) for name in _COUNTS}
    ran = counts["tests"] - counts["skipped"]
    if not ran:
        raise VirtualClientError("bench board: device tests must run, got none")
    return {"device_tests": ran, "device_tests_failed": counts["failures"] + counts["errors"]}
