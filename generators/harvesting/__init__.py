"""Harvesters: web pages and desktop programs turned into screens with elements and expressions, a source like any."""
