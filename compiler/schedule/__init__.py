"""Schedule primitives: each a rewrite of the loop nest that checks its own legality."""
