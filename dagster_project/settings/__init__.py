"""`deployment.yaml`, and Dagster's own settings, as values."""
