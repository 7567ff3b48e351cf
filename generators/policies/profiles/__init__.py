"""How published models are asked and read, one file a model: what their authors run, as data."""
