"""nano-base, the nano model that sees: `build` makes it, `curriculum` is what it learns, `gate` what it must see."""
