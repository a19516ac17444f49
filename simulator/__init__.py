"""What the machine does and when: function, timing, verification. Imports only `vdla.hardware`."""
