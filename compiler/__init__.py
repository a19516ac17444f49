"""From tensor expressions to instruction streams. Imports only `vdla.hardware`."""
