"""What the `vesper` command does with folders and stores: judge, refine, scan, find duplicates, forget."""
