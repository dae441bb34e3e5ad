"""The next turn before anything is done: who and which mode, the texts, the history that fits (page 2). Pure: opens, writes and sends nothing."""
