"""Vesper's own data: recorded in a real Chromium, damaged at known rates, written in ten sources' native forms."""
