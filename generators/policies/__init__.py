"""What acts on a screen: one interface, one file a policy or wrapper."""
