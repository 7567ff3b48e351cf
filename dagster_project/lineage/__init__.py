"""Questions about where things come from and where they go, answered from committed manifests alone."""
