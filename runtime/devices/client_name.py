# SPDX-License-Identifier: Apache-2.0
"""Who uses a device, as others are shown it."""

from __future__ import annotations

import getpass
import socket


def client_name() -> str:
    """USER@HOST of this process."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a user without a name, as in a container
        return socket.gethostname()
