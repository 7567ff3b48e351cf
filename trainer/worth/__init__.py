"""What data is worth: probes of nano that differ in one thing, compared with intervals, beside what the data cost."""
