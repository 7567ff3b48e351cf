"""Keep, repair or drop, with the reason: judges, refinement, semantic dedup, fidelity."""
