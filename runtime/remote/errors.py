# SPDX-License-Identifier: Apache-2.0
"""Errors of remote devices; a failure crosses the network as a code and a message.

The code says what a client may do: send the content again, open a new session, or report it.
"""

from __future__ import annotations

from vdla.runtime.devices import DeviceError

REFUSED = "refused"
"""A request that breaks a rule; sending it again does not help."""
DEVICE = "device"
"""The device refused or failed."""
UNKNOWN_CONTENT = "unknown_content"
"""A program or constant that the server does not hold; upload it."""
SESSION = "session"
"""The session does not exist or has lost its memory; open a new one."""
DAMAGED = "damaged"
"""Bytes changed on the way; send the request again."""
CODES = (REFUSED, DEVICE, UNKNOWN_CONTENT, SESSION, DAMAGED)


class RemoteError(DeviceError):
    """A request that the server of a device refuses, or a connection that cannot be used."""

    def __init__(self, message: str, code: str = REFUSED) -> None:
        super().__init__(message)
        self.code = code
