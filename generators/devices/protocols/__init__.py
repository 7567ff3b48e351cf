"""What devices speak, on the wire: ADB and CDP."""
