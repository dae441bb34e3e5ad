"""What other limits would have done to recorded sessions: their decisions taken again, and what would have been sent weighed anew. Pure."""
