"""Tasks: the catalogue that they come from, who proposes them, the bank, and what steers the next round."""
