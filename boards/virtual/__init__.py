"""The virtual board: PYNQ.remote's services, with the RTL or the simulator in place of the fabric."""
