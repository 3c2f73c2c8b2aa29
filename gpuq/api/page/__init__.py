"""The plain page at `/`: rendered here, readable without JavaScript, refreshed by a small script."""
