"""The judge bench: sound traces and grounding samples from real Chromium, with confirmed defects planted in copies."""
