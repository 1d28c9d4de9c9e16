// MULT18X18D of an ECP5, as far as the core uses it: one product of 18 x 18 bits, registers at
// inputs, in the middle and at the output. Written from the sysDSP usage guide (FPGA-TN-02205).
//
// A register is there where its _CLK names a clock, which has to be CLK0; _CE names its enable.
// Resets are synchronous. Operands do not come from shift chains: SOURCEA and SOURCEB are 0.

module MULT18X18D #(
    parameter REG_INPUTA_CLK = "NONE",
    parameter REG_INPUTA_CE = "CE0",
    parameter REG_INPUTA_RST = "RST0",
    parameter REG_INPUTB_CLK = "NONE",
    parameter REG_INPUTB_CE = "CE0",
    parameter REG_INPUTB_RST = "RST0",
    parameter REG_PIPELINE_CLK = "NONE",
    parameter REG_PIPELINE_CE = "CE0",
    parameter REG_PIPELINE_RST = "RST0",
    parameter REG_OUTPUT_CLK = "NONE",
    parameter REG_OUTPUT_CE = "CE0",
    parameter REG_OUTPUT_RST = "RST0",
    parameter GSR = "ENABLED"
) (
    input CLK0, CE0, CE1, CE2, CE3, RST0, RST1, RST2, RST3,
    input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    input
    A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0,
    input
    B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0,
    output
    P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
    P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
);
    wire [17:0] a = {
    A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0
    };
    wire [17:0] b = {
    B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0
    };
    wire [35:0] p;
    assign {
    P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
    P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
    } = p;

    wire [31:0] enables = {CE3, CE2, CE1, CE0};
    wire [31:0] resets = {RST3, RST2, RST1, RST0};

    // The last letter of "CE2" is its number.
    wire [18:0] a_used, b_used;
    wire [35:0] p_used;
    mult18x18d_register #(.THERE(REG_INPUTA_CLK != "NONE"), .WIDTH(19)) register_a (
        .clk(CLK0), .ce(enables[REG_INPUTA_CE & 3]), .rst(resets[REG_INPUTA_RST & 3]),
        .d({SIGNEDA & a[17], a}), .q(a_used)
    );
    mult18x18d_register #(.THERE(REG_INPUTB_CLK != "NONE"), .WIDTH(19)) register_b (
        .clk(CLK0), .ce(enables[REG_INPUTB_CE & 3]), .rst(resets[REG_INPUTB_RST & 3]),
        .d({SIGNEDB & b[17], b}), .q(b_used)
    );
    wire signed [37:0] product = $signed(a_used) * $signed(b_used);
    mult18x18d_register #(.THERE(REG_PIPELINE_CLK != "NONE"), .WIDTH(36)) register_pipeline (
        .clk(CLK0), .ce(enables[REG_PIPELINE_CE & 3]), .rst(resets[REG_PIPELINE_RST & 3]),
        .d(product[35:0]), .q(p_used)
    );
    mult18x18d_register #(.THERE(REG_OUTPUT_CLK != "NONE"), .WIDTH(36)) register_output (
        .clk(CLK0), .ce(enables[REG_OUTPUT_CE & 3]), .rst(resets[REG_OUTPUT_RST & 3]),
        .d(p_used), .q(p)
    );

    initial if (SOURCEA === 1'b1 || SOURCEB === 1'b1) $display("MULT18X18D: shift chains have no model");
endmodule

module mult18x18d_register #(
    parameter THERE = 1,
    parameter WIDTH = 1
) (
    input clk, ce, rst,
    input [WIDTH-1:0] d,
    output [WIDTH-1:0] q
);
    reg [WIDTH-1:0] held = 0;
    always @(posedge clk) if (ce) held <= rst ? {WIDTH{1'b0}} : d;
    assign q = THERE ? held : d;
endmodule

// CCU2C of an ECP5: two bits of a carry chain, each a table of four inputs. A table's lowest four
// entries, looked up by A and B alone, are the carry where the whole table gives 0. Written from the
// PFU and PFF usage of the ECP5 family data sheet (FPGA-DS-02012).

module CCU2C #(
    parameter [15:0] INIT0 = 0,
    parameter [15:0] INIT1 = 0,
    parameter INJECT1_0 = "YES",
    parameter INJECT1_1 = "YES"
) (
    input CIN, A0, B0, C0, D0, A1, B1, C1, D1,
    output S0, S1, COUT
);
    wire between;
    ccu2c_half #(.INIT(INIT0)) half_0 (
        .cin(CIN), .a(A0), .b(B0), .c(C0), .d(D0), .s(S0), .cout(between)
    );
    ccu2c_half #(.INIT(INIT1)) half_1 (
        .cin(between), .a(A1), .b(B1), .c(C1), .d(D1), .s(S1), .cout(COUT)
    );
    initial if (INJECT1_0 != "NO" || INJECT1_1 != "NO") $display("CCU2C: injection has no model");
endmodule

module ccu2c_half #(
    parameter [15:0] INIT = 0
) (
    input cin, a, b, c, d,
    output s, cout
);
    // As in the part, an input that is x matters only where the table depends on it.
    wire [7:0] of_d = d ? INIT[15:8] : INIT[7:0];
    wire [3:0] of_c = c ? of_d[7:4] : of_d[3:0];
    wire [1:0] of_b = b ? of_c[3:2] : of_c[1:0];
    wire propagate = a ? of_b[1] : of_b[0];
    wire [1:0] lowest = b ? INIT[3:2] : INIT[1:0];
    wire generated = a ? lowest[1] : lowest[0];
    assign s = propagate ^ cin;
    assign cout = propagate ? cin : generated;
endmodule
