"""Real web apps that others wrote, as worlds: each runs as a server of its own, is operated in Chromium, and reports
its truth through its own API or database. Optional: `pip install 'vesper[webapps]'` (the Dagster UI needs no more than
Dagster itself)."""
