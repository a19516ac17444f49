"""The RTL as a machine without extensions has it."""

import re

EXTENDED = re.compile(r"`ifdef VDLA_EXTENSIONS\n(?:(?!`else|`endif).*\n)*(?:`else\n((?:(?!`endif).*\n)*))?`endif\n")


def plain_part(text):
    """What is read of a file where VDLA_EXTENSIONS is not defined, without comments."""
    return re.sub(r"//.*", "", EXTENDED.sub(lambda found: found[1] or "", text))
