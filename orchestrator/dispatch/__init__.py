"""Running one turn against a provider: the tool loop, the retries, the stream filter at work."""
