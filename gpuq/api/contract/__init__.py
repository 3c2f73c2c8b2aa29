"""What the API accepts and returns: types, decoding, problem documents, OpenAPI."""
