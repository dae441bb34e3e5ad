"""Settings: declared once, read from five places, each value with its source (page 5)."""
