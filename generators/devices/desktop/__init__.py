"""What runs on a Linux desktop for its driver: reading its accessibility tree, resetting its home folder."""
