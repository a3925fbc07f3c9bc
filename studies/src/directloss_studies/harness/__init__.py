"""What every study runs on: its description, the store of results, execution, caches and progress."""
