"""The trainer's assets: what each reads, its settings, the function that makes it, and what runs that."""
