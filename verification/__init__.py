"""Programs, tests and defects that are drawn or generated, and what judges the toolkit by them."""
