"""One driver a protocol: what observes a device and acts on it, over a connection that it is given."""
