"""What a notebook shows of calibrators and wrappers: their cards, and maps as numbers to draw."""
