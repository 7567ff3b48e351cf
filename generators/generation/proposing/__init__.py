"""How tasks are proposed: the catalogue that they come from, who proposes them, the bank, and what steers a round."""
