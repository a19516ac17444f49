"""Code generators, one room a target."""
