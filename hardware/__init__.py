"""What the machine is: configuration, instruction set, programs, timing constants. Imports nothing of ours."""
