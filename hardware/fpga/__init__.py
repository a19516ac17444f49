"""Area and logic depth on FPGAs, from synthesis with Yosys."""
