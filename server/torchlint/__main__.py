"""``python -m torchlint`` is the ``torchlint`` command."""

from torchlint.cli import main

if __name__ == "__main__":
    main()
