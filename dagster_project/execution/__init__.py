"""How a stage is executed: its own process, what it reports, what is shown while it runs."""
