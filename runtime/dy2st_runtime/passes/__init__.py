"""Passes: a pass takes a valid program and gives a valid program; the one it was given stays as it is.

Other functions here are parts of passes: ``rules`` finds and replaces for those that ``dy2st.rewrite`` makes, ``application``
checks what passes of others give.
"""
