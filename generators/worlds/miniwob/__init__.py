"""MiniWoB++: `world` shows any task of the `miniwob` package, `recorded` records as the published demonstrations do."""
