"""Click commands, thin, one file each. Everything else is in the rooms below."""
