"""The lease authority: who may use which device, until when; one process, HTTP and JSON over SQLite."""
