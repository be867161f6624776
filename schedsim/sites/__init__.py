"""The rules of sites, by scheduler: Cobalt's and Slurm's. Policies know none of them."""
