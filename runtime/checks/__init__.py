"""Checks of what an extension declares: the SystemVerilog of a step and the instructions of an
intrinsic compute what their tensor expressions say.
"""
