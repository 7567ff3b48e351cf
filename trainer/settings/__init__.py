"""Every setting of training: its default, range and text, and what each preset makes of them. Imports no torch."""
