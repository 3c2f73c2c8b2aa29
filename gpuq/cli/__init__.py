"""The command: a client of the HTTP API and nothing more. One verb per file; `main` imports only the one asked for."""
