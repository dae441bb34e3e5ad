"""Looking around on this machine: plain functions that each answer one question, change nothing and never hang."""
