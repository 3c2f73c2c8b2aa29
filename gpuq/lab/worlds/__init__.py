"""Simulated hardware made from public measurements."""
