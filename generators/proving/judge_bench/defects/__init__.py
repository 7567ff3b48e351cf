"""Defects planted in copies of sound traces and screens, each confirmed to be one."""
