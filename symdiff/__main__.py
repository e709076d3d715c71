"""`python -m symdiff`."""

import sys

from symdiff.cli import main

sys.exit(main())
