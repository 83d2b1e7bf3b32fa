"""Lists as views read them: finished elsewhere, swapped in here."""
