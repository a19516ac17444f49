"""From plain loops to machine code, through LLVM."""
