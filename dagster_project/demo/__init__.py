"""`vesper demo`: the whole graph on embedded data, and its report."""
