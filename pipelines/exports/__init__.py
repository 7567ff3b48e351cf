"""Exports: the corpus in the forms that other trainers load, in parts that a killed run goes on after."""
