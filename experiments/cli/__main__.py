"""`python -m experiments.cli`: the command `jobcast`."""

from experiments.cli.main import main

main()
