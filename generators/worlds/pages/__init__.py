"""Our own pages: seeded phone, desktop and web screens with a truth, their tasks, and the recording of episodes."""
