"""Operators as tensor expressions, with default schedules for the CPU."""
