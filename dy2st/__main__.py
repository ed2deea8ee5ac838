"""``python -m dy2st``: the ``dy2st`` command."""

from dy2st.cli import main

if __name__ == "__main__":
    main()
