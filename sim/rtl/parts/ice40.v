// SB_MAC16 of an iCE40, as far as the core uses it: two signed products of 8 x 8 bits, registers at
// the inputs and behind the products. Written from the DSP function usage guide (FPGA-TN-02007).
//
// The parameters are checked: nothing else that the part can do has a model here.

module SB_MAC16 #(
    parameter [0:0] A_REG = 0,
    parameter [0:0] B_REG = 0,
    parameter [0:0] MODE_8x8 = 0,
    parameter [0:0] TOP_8x8_MULT_REG = 0,
    parameter [0:0] BOT_8x8_MULT_REG = 0,
    parameter [1:0] TOPOUTPUT_SELECT = 0,
    parameter [1:0] BOTOUTPUT_SELECT = 0,
    parameter [0:0] A_SIGNED = 0,
    parameter [0:0] B_SIGNED = 0
) (
    input CLK, CE,
    input [15:0] A, B, C, D,
    input AHOLD, BHOLD, CHOLD, DHOLD,
    input IRSTTOP, IRSTBOT, ORSTTOP, ORSTBOT,
    input OLOADTOP, OLOADBOT, OHOLDTOP, OHOLDBOT,
    input ADDSUBTOP, ADDSUBBOT, CI, ACCUMCI, SIGNEXTIN,
    output [31:0] O
);
    reg signed [7:0] a_top = 0, a_bottom = 0, b_top = 0, b_bottom = 0;
    reg signed [15:0] top = 0, bottom = 0;

    always @(posedge CLK) if (CE) begin
        if (!AHOLD) {a_top, a_bottom} <= A;
        if (!BHOLD) {b_top, b_bottom} <= B;
        top <= a_top * b_top;
        bottom <= a_bottom * b_bottom;
    end
    assign O = {top, bottom};

    wire two_products = A_REG && B_REG && MODE_8x8 && A_SIGNED && B_SIGNED
        && TOP_8x8_MULT_REG && BOT_8x8_MULT_REG && TOPOUTPUT_SELECT == 2 && BOTOUTPUT_SELECT == 2;
    wire plain = !(IRSTTOP || IRSTBOT || ORSTTOP || ORSTBOT);
    always @(posedge CLK) if (!two_products || !plain) begin
        $display("SB_MAC16: wanted two products with registers and no reset");
        $finish;
    end
endmodule
