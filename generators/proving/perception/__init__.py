"""What a nano model learns to see on: elements drawn by Chromium, and screens that nothing but looking can answer."""
