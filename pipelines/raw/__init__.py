"""Raw files: pulled from a hub or any URL, unpacked, observed upstream, named and hashed."""
