# SPDX-License-Identifier: Apache-2.0
"""What the notebooks of the course use beyond the library: checks of exercises, pictures.

`check` marks an answer, `roofline` and `bars` draw figures that a notebook has computed.
"""

from vdla.notebook.exercises import Mark, check
from vdla.notebook.pictures import Picture, bars, roofline

__all__ = ["Mark", "Picture", "bars", "check", "roofline"]
