"""Options of the commands, a dataclass each: nothing heavy is imported for help and completion."""
