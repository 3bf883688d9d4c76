"""`python -m ramify` is `ramify`."""

import sys

from ramify.cli import main

sys.exit(main())
