"""What stages run, in modules of their own: the graph names these functions, and imports none of what they need."""
