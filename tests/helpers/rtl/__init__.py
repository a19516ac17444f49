"""The bench around RTL modules: clock, pins, memories, protocol checkers."""
