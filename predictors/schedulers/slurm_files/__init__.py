"""What a site's Slurm has in files: its slurm.conf, and accounts, users and QOS as `sacctmgr` writes them."""
