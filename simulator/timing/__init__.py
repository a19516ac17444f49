"""When every instruction starts and ends, and where the cycles of every unit went."""
