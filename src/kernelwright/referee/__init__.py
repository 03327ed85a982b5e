"""Judge candidates: guard, build, load, verify, time. Nobody on the team can talk to it."""
