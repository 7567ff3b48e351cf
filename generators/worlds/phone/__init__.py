"""A small Android-like phone of eight apps in Chromium's mobile viewport; its whole truth is one document."""
