"""The commands of `vesper`, by what they need; each module has `configure(command, parser)`."""
