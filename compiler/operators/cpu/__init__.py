"""CPU schedules of the operators."""
