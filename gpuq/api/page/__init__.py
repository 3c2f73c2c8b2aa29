"""The plain page at `/`: rendered here, readable without a script, kept current by a small one."""
