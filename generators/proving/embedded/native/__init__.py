"""One writer a source: recorded episodes or still screens → files in that source's true native form."""
