"""What a site's Slurm has in files: slurm.conf, lists of hosts, and what `sacctmgr` writes of accounts, users, QOS."""
