"""Policies propose an order of preference over (job, device); the core's admission decides."""
