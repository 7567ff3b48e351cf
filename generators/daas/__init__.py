"""Device as a Service: one lease authority, stateless gateway nodes, drivers for CDP, ADB and SSH, and the SDK."""
