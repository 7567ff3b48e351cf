"""Django's admin over users, groups and a small lending library."""
