"""HTTP: the routes of the protocol, the page for people, and connections that hold nothing up."""
