"""What an agent is told beside the conversation itself: static texts, digests, orientation, and how they are delivered (page 2)."""
