"""Board support: one folder a board."""
