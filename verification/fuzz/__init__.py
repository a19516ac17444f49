"""The differential fuzzer of schedules."""
