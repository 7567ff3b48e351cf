"""Devices and the way to them: the local browser, one lease authority, stateless gateway nodes, drivers for CDP, ADB
and SSH, and the SDK."""
