"""What a loop nest reads and writes: accesses, regions, dataflow, independence of iterations."""
