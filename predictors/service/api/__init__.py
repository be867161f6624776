"""The web API: routes, schema, authentication and limits."""
