"""Web sites generated from finite-state specs: every page, edge and goal of a site can be checked."""
