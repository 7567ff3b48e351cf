"""Vesper's own data: recorded in a real Chromium, damaged at known rates, written in ten sources' native forms."""

from generators.proving.embedded.build import build_raw
from generators.proving.embedded.defects import DefectRates
from generators.proving.embedded.makers import COUNTS, SOURCES

__all__ = ["COUNTS", "SOURCES", "DefectRates", "build_raw"]
