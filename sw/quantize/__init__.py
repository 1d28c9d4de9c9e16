"""Float networks of several frameworks, quantised to int8 by the tools made for them."""
