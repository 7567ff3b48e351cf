"""The graph as plain data: the stages by part of the graph, without Dagster."""
