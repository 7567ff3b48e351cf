"""The lending library: a Django app of authors, books and loans."""
