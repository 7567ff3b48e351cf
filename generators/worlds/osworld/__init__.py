"""Tasks in OSWorld's form, played in a sealed desktop session: their files, setup, getters and metrics."""
