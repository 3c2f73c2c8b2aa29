"""The published model and the predictions made from it."""
