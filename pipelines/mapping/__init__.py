"""What maps a native record to rows: the adapter's classes, builders, and what adapters by column share."""
