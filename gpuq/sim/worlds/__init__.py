"""Worlds built from measured data, one module per upstream project."""
