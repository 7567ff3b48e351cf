"""Worlds that run offline in a real Chromium: MiniWoB++ and pages of our own."""
