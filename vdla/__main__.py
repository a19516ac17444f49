# SPDX-License-Identifier: Apache-2.0
"""`python -m vdla`: the command line."""

import sys

from vdla.cli import main

sys.exit(main())
