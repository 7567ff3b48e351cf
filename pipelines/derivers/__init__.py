"""Sample derivers: one file each, a pure function from steps or a screen to candidate samples."""
