"""Screens in real fonts and known looks, and questions about windows cut from them."""
