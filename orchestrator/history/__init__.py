"""From stored turns to the message list that one provider gets: scope, fit, normalise (page 3)."""
