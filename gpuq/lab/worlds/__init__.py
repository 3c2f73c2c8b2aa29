"""Worlds made from public measurements."""
