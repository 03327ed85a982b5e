"""Real HTTP servers for tests: they speak providers' protocols and misbehave as told."""
