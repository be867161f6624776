"""Names of the classes of performance variation, from the least to the most."""

from typing import Final

NONE: Final = "none"
LITTLE: Final = "little"
VARIATION: Final = "variation"
CLASSES: Final = (NONE, LITTLE, VARIATION)  # classes of a run: a classifier's answers, and the input of RUSH's gate
