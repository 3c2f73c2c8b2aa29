"""What the API accepts and returns: routes, parameters, response schemas, errors, the OpenAPI document."""
