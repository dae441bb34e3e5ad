"""JSON documents and the values they stand for (page 6). Modules are imported by name, so that writing one needs no pydantic."""
