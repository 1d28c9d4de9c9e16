# y = x w + bias: four vectors of four numbers, for a core of 4 x 4 cells
LOAD         external=0x000 length=16 post=0
LOAD_WEIGHTS external=0x100 post=1
LOAD_PARAMS  external=0x200 count=4 post=2
MATMUL       wait=0+1 taps=4 x_count=4 x_stride=4 post=3
VECTOR       wait=2+3 source=ACCUMULATORS x_count=4 source_x_stride=1 channels=4 per_channel=1 destination_base=64 destination_x_stride=4 post=4
STORE        wait=4 unified=64 external=0x300 length=16
HALT
