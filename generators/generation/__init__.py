"""The generation loop: propose tasks, run them on leased devices, verify, and propose better ones."""
