"""One driver a protocol: what looks at a device and acts on it, over a connection that it is given."""
