"""The client: lease a device, reach it and act on it, from async code, plain code, a shell or Gymnasium."""
