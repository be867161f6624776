"""Reports: tables, pictures, the manifest and one HTML page."""
