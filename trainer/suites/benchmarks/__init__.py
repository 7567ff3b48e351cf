"""One file per grounding benchmark: how its rows are asked, labelled and reported (`trainer.suites.registry`)."""
