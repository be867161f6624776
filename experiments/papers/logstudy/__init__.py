"""Study of a job log: Allcock et al., section 4.1-4.2, Li et al., section 3."""
