"""Passes from a scheduled loop nest to plain loops: each a function from Function to Function."""
