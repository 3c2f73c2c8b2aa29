"""The process between the worker and a job: it starts the job, keeps its log, and records how it ended."""
