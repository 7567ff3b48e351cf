"""Planted triggers, personal data, credentials and licences."""
