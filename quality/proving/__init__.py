"""How good a judge is: its answers on a judge bench against the truth, with their uncertainty, and the report."""
