"""What `escalera chat` is made of: the conversation, its commands, and the two ways of typing into it."""
