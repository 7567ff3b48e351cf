"""Vesper's own data: recorded in a real Chromium, damaged at known rates, written in ten sources' native forms."""

from generators.proving.embedded.build import COUNTS, SOURCES, build_raw
from generators.proving.embedded.defects import DefectRates

__all__ = ["COUNTS", "SOURCES", "DefectRates", "build_raw"]
