"""Architecture shared by hardware and software: sizes, instructions, registers."""
