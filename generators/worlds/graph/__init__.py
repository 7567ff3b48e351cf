"""A made-up app of screens and icons, drawn without a browser."""
