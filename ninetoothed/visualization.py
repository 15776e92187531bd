"""Drawing arrangements: not offered by this version yet. The module is here so that importing it says so."""

from ninetoothed.errors import NotOfferedYet

raise NotOfferedYet("visualization", "drawing arrangements")
