"""Recorders: worlds of the judge bench, whose scripted hands or failing policies leave traces and screens."""
