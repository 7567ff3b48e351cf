"""Reward terms that a setting names: one file each, with its own options (`trainer.rl.own_terms.MEMBERS`)."""
