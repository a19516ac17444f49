"""VDLA: compile tensor expressions to an accelerator program, simulate it exactly, verify it."""
