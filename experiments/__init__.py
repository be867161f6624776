"""The command line, the papers' tables and figures, the reports."""
