"""Datasette over a small shop's database: tables to filter, facet, sort, search and query, and forms that write."""
