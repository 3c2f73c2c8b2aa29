"""What the API accepts and returns: routes, types, decoding, problem documents, OpenAPI."""
