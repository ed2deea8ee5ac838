"""Python text to gast and back: find, template, compile, print. Never imports torch."""
