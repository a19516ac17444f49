"""What the machine does and when: function, timing, verification."""
