"""The error of programs and their files, below both."""

from __future__ import annotations

from vdla.support.errors import Error


class ProgramError(Error, ValueError):
    """An inconsistent program, or a file that holds no valid program."""
