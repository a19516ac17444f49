"""Variables of the environment that make the tests of the modules test other RTL than the
repository's.
"""

FOLDER_VARIABLE = "VDLA_TEST_RTL"
"""The folder of the RTL."""

ARGUMENT_VARIABLE = "VDLA_TEST_PLUSARGS"
"""Arguments of the simulation, between blanks."""
