"""One client for models that speak the OpenAI protocol: schema, cache, retries, limits, ceiling, bill."""
