"""Finished attempts: how they are stored, cleaned and watched for drift."""
