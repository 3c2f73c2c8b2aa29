"""The campaign's own tests; `jobs.py` writes the scripted workloads that they measure."""
