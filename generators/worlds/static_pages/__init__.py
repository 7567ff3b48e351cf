"""A folder of static html pages that others wrote, as a world."""
