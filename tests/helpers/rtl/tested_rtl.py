# SPDX-License-Identifier: Apache-2.0
"""The RTL that the tests of modules test: the repository's, or a copy with planted defects.

`vdla bench rtl_mutants` gives the folder of the copy and the argument that activates one defect.
"""

from __future__ import annotations

import os
from pathlib import Path

from vdla.hardware.generate.rtl_files import FOLDER
from vdla.verification.rtl_mutants.machines import ARGUMENT_VARIABLE, FOLDER_VARIABLE

RTL = Path(os.environ.get(FOLDER_VARIABLE) or FOLDER)
PLUSARGS = tuple(os.environ.get(ARGUMENT_VARIABLE, "").split())
