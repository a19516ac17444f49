# SPDX-License-Identifier: Apache-2.0
"""`python -m vdla.commands.on_board`: what `python -m vdla_board` is in the wheel for boards."""

import sys

from vdla.commands.on_board import main

if __name__ == "__main__":
    sys.exit(main())
