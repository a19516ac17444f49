# SPDX-License-Identifier: Apache-2.0
"""A page in headless Chromium, which is told what to do through the DevTools protocol.

The browser reads requests from one pipe and answers on another, so that no port is open. Every
message is JSON with a zero byte behind it.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vdla.support.errors import Error

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
_READ, _WRITE = 3, 4  # the descriptors that the browser uses
TIMEOUT_S = 120.0


class BrowserError(Error, RuntimeError):
    """A browser that is missing, or a page that fails."""


def browser() -> str | None:
    """The path of Chromium; None where it is not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """The one page of a browser."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers, self._read, self._number = requests, answers, b"", 0
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session: dict[str, str] = {"sessionId": session}

    def open(self, path: Path, width: int, height: int = 900, link: str = "") -> None:
        """Load a file, with a link behind "#"; `until` waits for what it does."""
        self.visit(path.resolve().as_uri() + (f"#{link}" if link else ""), width, height)

    def visit(self, address: str, width: int, height: int = 900) -> None:
        """Load an address."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)

    def value(self, expression: str) -> Any:  # noqa: ANN401  of the page
        """The value of an expression, or of its promise; BrowserError for an exception."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            text = details.get("exception", {}).get("description", details["text"])
            raise BrowserError(f"browser: {expression} must have a value, got {text}")
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            if self.value(f"Boolean({expression})"):
                return
            time.sleep(0.02)
        raise BrowserError(f"browser: {expression} must become true, got nothing after {TIMEOUT_S:g} s")

    def press(self, key: str, text: str = "", shift: bool = False) -> None:
        """Press and release a key, named as `KeyboardEvent.key` is."""
        options = {"key": key, "modifiers": 8 if shift else 0}
        self._call("Input.dispatchKeyEvent", type="keyDown", **options, **({"text": text} if text else {}))
        self._call("Input.dispatchKeyEvent", type="keyUp", **options)

    def click(self, x: float, y: float) -> None:
        """Click at a point of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self) -> str:
        """What the window shows, as PNG in base64."""
        data: str = self._call("Page.captureScreenshot", format="png")["data"]
        return data

    def _call(self, method: str, **values: Any) -> dict[str, Any]:  # noqa: ANN401  of the protocol
        return self._send(method, self._session, **values)

    def _send(self, method: str, session: dict[str, str] | None = None, **values: Any) -> dict[str, Any]:  # noqa: ANN401
        self._number += 1
        request = {"id": self._number, "method": method, "params": values, **(session or {})}
        os.write(self._requests, json.dumps(request).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._number:
                break
        if "error" in answer:
            raise BrowserError(f"browser: {method} must work, got {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _message(self) -> bytes:
        while b"\0" not in self._read:
            if not select.select([self._answers], [], [], TIMEOUT_S)[0]:
                raise BrowserError(f"browser: it must answer, got nothing after {TIMEOUT_S:g} s")
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise BrowserError("browser: it must answer, got the end of its output")
            self._read += part
        message, _, self._read = self._read.partition(b"\0")
        return message


@contextmanager
def open_page() -> Iterator[Page]:
    """A page of a new browser, which ends with the context."""
    program = browser()
    if program is None:
        raise BrowserError("browser: chromium must be installed, got none (apt-get install chromium)")
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # The shell gives both ends the numbers that the browser expects; sh knows only one digit.
        script = f'exec "$@" {_READ}<&{theirs_in} {_WRITE}>&{theirs_out}'
        command = ["bash", "-c", script, "bash", program, *_OPTIONS, f"--user-data-dir={folder}"]
        process = subprocess.Popen(
            command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Page(ours_out, ours_in)
        finally:
            os.close(ours_out)  # the browser exits with its pipe
            os.close(ours_in)
            process.terminate()
            process.wait(TIMEOUT_S)
