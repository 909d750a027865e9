"""`python -m pfels` is the `pfels` command."""

from pfels.cli import main

if __name__ == "__main__":
    main()
