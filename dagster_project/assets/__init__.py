"""The stages by part of the graph, and the factory that makes Dagster assets of them."""
