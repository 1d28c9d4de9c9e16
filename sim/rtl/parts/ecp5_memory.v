// DP16KD of an ECP5, as far as the core uses it: 18 Kbit of block memory that port A writes, and
// both ports read. Words of 1, 2, 4, 9, 18 or 36 bits; those of 36 are written by A and read by B,
// with the data pins of both ports. Written from the memory usage guide (FPGA-TN-02204).
//
// What B reads of bits that A writes at the same edge is not said: the model gives the opposite of
// the old ones, so that who relies on either is found out. No output registers, no resets.

module DP16KD #(
    parameter DATA_WIDTH_A = 18,
    parameter DATA_WIDTH_B = 18,
    parameter REGMODE_A = "NOREG",
    parameter REGMODE_B = "NOREG",
    parameter RESETMODE = "SYNC",
    parameter ASYNC_RESET_RELEASE = "SYNC",
    parameter CSDECODE_A = "0b000",
    parameter CSDECODE_B = "0b000",
    parameter WRITEMODE_A = "NORMAL",
    parameter WRITEMODE_B = "NORMAL",
    parameter CLKAMUX = "CLKA",
    parameter CLKBMUX = "CLKB",
    parameter GSR = "ENABLED",
    parameter [319:0]
    INITVAL_00 = 0, INITVAL_01 = 0, INITVAL_02 = 0, INITVAL_03 = 0,
    INITVAL_04 = 0, INITVAL_05 = 0, INITVAL_06 = 0, INITVAL_07 = 0,
    INITVAL_08 = 0, INITVAL_09 = 0, INITVAL_0A = 0, INITVAL_0B = 0,
    INITVAL_0C = 0, INITVAL_0D = 0, INITVAL_0E = 0, INITVAL_0F = 0,
    parameter [319:0]
    INITVAL_10 = 0, INITVAL_11 = 0, INITVAL_12 = 0, INITVAL_13 = 0,
    INITVAL_14 = 0, INITVAL_15 = 0, INITVAL_16 = 0, INITVAL_17 = 0,
    INITVAL_18 = 0, INITVAL_19 = 0, INITVAL_1A = 0, INITVAL_1B = 0,
    INITVAL_1C = 0, INITVAL_1D = 0, INITVAL_1E = 0, INITVAL_1F = 0,
    parameter [319:0]
    INITVAL_20 = 0, INITVAL_21 = 0, INITVAL_22 = 0, INITVAL_23 = 0,
    INITVAL_24 = 0, INITVAL_25 = 0, INITVAL_26 = 0, INITVAL_27 = 0,
    INITVAL_28 = 0, INITVAL_29 = 0, INITVAL_2A = 0, INITVAL_2B = 0,
    INITVAL_2C = 0, INITVAL_2D = 0, INITVAL_2E = 0, INITVAL_2F = 0,
    parameter [319:0]
    INITVAL_30 = 0, INITVAL_31 = 0, INITVAL_32 = 0, INITVAL_33 = 0,
    INITVAL_34 = 0, INITVAL_35 = 0, INITVAL_36 = 0, INITVAL_37 = 0,
    INITVAL_38 = 0, INITVAL_39 = 0, INITVAL_3A = 0, INITVAL_3B = 0,
    INITVAL_3C = 0, INITVAL_3D = 0, INITVAL_3E = 0, INITVAL_3F = 0
) (
    input CLKA, CEA, OCEA, WEA, RSTA, CSA2, CSA1, CSA0,
    input CLKB, CEB, OCEB, WEB, RSTB, CSB2, CSB1, CSB0,
    input
    ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input
    ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input
    DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4,
    DIA3, DIA2, DIA1, DIA0,
    input
    DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4,
    DIB3, DIB2, DIB1, DIB0,
    output
    DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4,
    DOA3, DOA2, DOA1, DOA0,
    output
    DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4,
    DOB3, DOB2, DOB1, DOB0
);
    localparam WIDE = DATA_WIDTH_A == 36;
    wire [13:0] address_a = {
    ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0
    };
    wire [13:0] address_b = {
    ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0
    };
    wire [35:0] data = {
    DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4,
    DIB3, DIB2, DIB1, DIB0,
    DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4,
    DIA3, DIA2, DIA1, DIA0
    };
    wire [35:0] word_a, word_b;
    assign {
    DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4,
    DOA3, DOA2, DOA1, DOA0
    } = DATA_WIDTH_B == 36 ? word_b[17:0] : word_a[17:0];
    assign {
    DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4,
    DOB3, DOB2, DOB1, DOB0
    } = DATA_WIDTH_B == 36 ? word_b[35:18] : word_b[17:0];

    // Two words of 18 bits; the upper addresses choose the pair, the lower ones the place in it.
    reg [35:0] pairs [0:511];
    wire [5:0] place_a, place_b;
    wire [35:0] span_a, span_b, enabled;
    dp16kd_place #(.WIDTH(DATA_WIDTH_A)) of_a (
        .address(address_a[4:0]), .place(place_a), .span(span_a), .enabled(enabled)
    );
    dp16kd_place #(.WIDTH(DATA_WIDTH_B)) of_b (
        .address(address_b[4:0]), .place(place_b), .span(span_b), .enabled()
    );
    wire write = CEA && WEA;
    wire [35:0] mask = enabled << place_a;
    wire [35:0] old_a = pairs[address_a[13:5]];
    wire [35:0] new_a = (old_a & ~mask) | ((data << place_a) & mask);
    wire collision = write && address_a[13:5] == address_b[13:5];
    wire [35:0] old_b = pairs[address_b[13:5]] ^ (collision ? mask : 36'd0);

    reg [35:0] read_a = 0, read_b = 0;
    assign word_a = read_a;
    assign word_b = read_b;
    always @(posedge CLKA) begin
        if (write) pairs[address_a[13:5]] <= new_a;
        if (CEA && !(WEA && WRITEMODE_A == "NORMAL"))
            read_a <= ((WEA && WRITEMODE_A == "WRITETHROUGH" ? new_a : old_a) >> place_a) & span_a;
    end
    always @(posedge CLKB) if (CEB) read_b <= (old_b >> place_b) & span_b;

    // Sixteen words in each parameter, twenty bits apart.
    localparam [64 * 320 - 1:0] INITVAL = {
        INITVAL_3F, INITVAL_3E, INITVAL_3D, INITVAL_3C, INITVAL_3B, INITVAL_3A, INITVAL_39,
        INITVAL_38, INITVAL_37, INITVAL_36, INITVAL_35, INITVAL_34, INITVAL_33, INITVAL_32,
        INITVAL_31, INITVAL_30, INITVAL_2F, INITVAL_2E, INITVAL_2D, INITVAL_2C, INITVAL_2B,
        INITVAL_2A, INITVAL_29, INITVAL_28, INITVAL_27, INITVAL_26, INITVAL_25, INITVAL_24,
        INITVAL_23, INITVAL_22, INITVAL_21, INITVAL_20, INITVAL_1F, INITVAL_1E, INITVAL_1D,
        INITVAL_1C, INITVAL_1B, INITVAL_1A, INITVAL_19, INITVAL_18, INITVAL_17, INITVAL_16,
        INITVAL_15, INITVAL_14, INITVAL_13, INITVAL_12, INITVAL_11, INITVAL_10, INITVAL_0F,
        INITVAL_0E, INITVAL_0D, INITVAL_0C, INITVAL_0B, INITVAL_0A, INITVAL_09, INITVAL_08,
        INITVAL_07, INITVAL_06, INITVAL_05, INITVAL_04, INITVAL_03, INITVAL_02, INITVAL_01,
        INITVAL_00
    };
    integer n;
    initial for (n = 0; n < 512; n = n + 1)
        pairs[n] = {INITVAL[(2 * n + 1) * 20 +: 18], INITVAL[2 * n * 20 +: 18]};

    wire modelled = REGMODE_A == "NOREG" && REGMODE_B == "NOREG"
        && CSDECODE_A == "0b000" && CSDECODE_B == "0b000" && CLKAMUX == "CLKA" && CLKBMUX == "CLKB"
        && !(DATA_WIDTH_B == 36 && !WIDE);
    wire plain = !(RSTA || RSTB || CSA2 || CSA1 || CSA0 || CSB2 || CSB1 || CSB0 || (CEB && WEB));
    always @(posedge CLKA) if (!modelled || !plain) begin
        $display("DP16KD: wanted one writer, plain outputs and no reset");
        $finish;
    end
endmodule

// Where a word lies in its pair: nine bits to half a word, of which narrow words leave one out.
module dp16kd_place #(
    parameter WIDTH = 18
) (
    input [4:0] address,
    output [5:0] place,
    output [35:0] span, enabled
);
    wire [5:0] half = (address[4] ? 6'd18 : 6'd0) + (address[3] ? 6'd9 : 6'd0);
    assign span = 36'hFFFFFFFFF >> (36 - WIDTH);
    assign place = WIDTH == 36 ? 6'd0
        : WIDTH == 18 ? (address[4] ? 6'd18 : 6'd0)
        : WIDTH == 9 ? half
        : half + (address[2:0] & ~(WIDTH - 1));
    // Wide words have an enable for each nine bits, where the address ends.
    assign enabled = WIDTH == 36
        ? {{9{address[3]}}, {9{address[2]}}, {9{address[1]}}, {9{address[0]}}}
        : WIDTH == 18 ? {18'd0, {9{address[1]}}, {9{address[0]}}}
        : span;
endmodule
