"""What only proves things: the embedded data, the judge bench, the drawn screens that nano-base learns to see with.

Nothing of the product imports from here but the wiring in `dagster_project`, and other proving wings.
"""
