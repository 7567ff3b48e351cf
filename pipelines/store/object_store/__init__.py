"""A store behind an fsspec URL (`s3://bucket/prefix`, `file:///share/vesper`, `memory://x`).

The object store is the truth; the local `$VESPER_HOME` is a verified copy in front of it.

objects.py   bytes by name behind a URL, with time limits and one kind of error
s3.py        the same on S3 with conditional reads and writes
folder.py    the same in a folder (a share that several machines mount)
binding.py   which URL a home belongs to
copies.py    read-through (verified by sha256) and write-through (parts, receipts, manifest, then the pointer)
withdrawn.py takedown: all of it comes here first; what other machines keep of a record goes
adopt.py     put a store of local files behind a URL
leases.py    one writer per asset across machines, and no build while `vesper gc` deletes
"""
