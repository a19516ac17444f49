"""What a program computes: instructions executed on buffers and a DRAM image."""
