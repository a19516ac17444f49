"""The same program on two devices, compared event by event and byte by byte."""
