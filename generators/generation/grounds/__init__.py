"""Grounds: families of targets where tasks are proposed. Add one here."""
