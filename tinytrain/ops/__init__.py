"""Operator definitions, one file a family; see `base` for what a definition is."""
