"""A local page on which people browse the corpus: filter, look, compare, mark, send to review, export."""
