"""Operator templates: a tensor expression and its schedule for any shape and configuration."""
