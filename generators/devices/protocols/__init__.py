"""What devices speak, on the wire: ADB, CDP, and the way through a gateway."""
