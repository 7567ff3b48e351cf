"""How screens are looked at that are larger than what a model sees at once."""
