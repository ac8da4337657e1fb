"""What of pycparser is used here."""
