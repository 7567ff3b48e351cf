"""What is there twice: texts by meaning, screenshots and episodes by their hashes, one owner each."""
