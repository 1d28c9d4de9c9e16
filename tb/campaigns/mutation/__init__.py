"""Changes of the gateware that tests have to notice."""
