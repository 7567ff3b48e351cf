"""An emulated phone: the device side of ADB over TCP in front of any backend that shows a screen."""
