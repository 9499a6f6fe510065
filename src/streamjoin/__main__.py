"""`python -m streamjoin` is the command line."""

import sys

from streamjoin.cli import main

if __name__ == "__main__":
    sys.exit(main())
