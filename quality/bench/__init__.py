"""How good a judge is: planted truth, its figures with their uncertainty, and the report."""
