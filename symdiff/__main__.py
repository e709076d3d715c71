"""`python -m symdiff`."""

import sys

from symdiff.exporting.cli import main

sys.exit(main())
