"""What a run or a bench came to, for people: pure functions from store records to text."""
