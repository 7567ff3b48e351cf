"""The gateway: stateless nodes that relay CDP, ADB and SSH to leased devices."""
