LOAD  external=0x000 length=64 post=0
STORE wait=0 external=0x400 length=64
HALT
