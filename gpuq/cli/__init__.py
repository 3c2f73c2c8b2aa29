"""The command: a client of the HTTP API. One module per verb; `main` imports only the verb that was typed."""
