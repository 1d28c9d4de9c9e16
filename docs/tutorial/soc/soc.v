// A design around the core. The bus of a host reaches the registers, the core reaches a memory.
module soc (
    input         clk,
    input         reset_n,     // any time, active low
    output        irq,

    // Registers: AXI4-Lite, the host is the master.
    input         host_awvalid, output        host_awready, input  [31:0] host_awaddr,
    input         host_wvalid,  output        host_wready,  input  [31:0] host_wdata,
    input  [3:0]  host_wstrb,
    output        host_bvalid,  input         host_bready,  output [1:0]  host_bresp,
    input         host_arvalid, output        host_arready, input  [31:0] host_araddr,
    output        host_rvalid,  input         host_rready,  output [31:0] host_rdata,
    output [1:0]  host_rresp,

    // Memory: AXI4, the core is the master. Four bytes a beat, as bus_bytes of the preset nano.
    output        mem_awvalid, input         mem_awready, output        mem_awid,
    output [31:0] mem_awaddr,  output [7:0]  mem_awlen,   output [2:0]  mem_awsize,
    output [1:0]  mem_awburst,
    output        mem_wvalid,  input         mem_wready,  output [31:0] mem_wdata,
    output [3:0]  mem_wstrb,   output        mem_wlast,
    input         mem_bvalid,  output        mem_bready,  input         mem_bid,
    input  [1:0]  mem_bresp,
    output        mem_arvalid, input         mem_arready, output        mem_arid,
    output [31:0] mem_araddr,  output [7:0]  mem_arlen,   output [2:0]  mem_arsize,
    output [1:0]  mem_arburst,
    input         mem_rvalid,  output        mem_rready,  input         mem_rid,
    input  [31:0] mem_rdata,   input  [1:0]  mem_rresp,   input         mem_rlast
);

    // The core wants a synchronous reset, active high.
    reg [1:0] reset = 2'b11;
    always @(posedge clk or negedge reset_n)
        if (!reset_n) reset <= 2'b11;
        else          reset <= {reset[0], 1'b0};

    // The registers take 4 KiB. A bus with more slaves decodes the upper bits of the address.
    celosia core (
        .clk(clk), .rst(reset[1]), .irq(irq),

        .s_axil__awvalid(host_awvalid), .s_axil__awready(host_awready),
        .s_axil__awaddr(host_awaddr[11:0]),
        .s_axil__wvalid(host_wvalid), .s_axil__wready(host_wready),
        .s_axil__wdata(host_wdata), .s_axil__wstrb(host_wstrb),
        .s_axil__bvalid(host_bvalid), .s_axil__bready(host_bready),
        .s_axil__bresp(host_bresp),
        .s_axil__arvalid(host_arvalid), .s_axil__arready(host_arready),
        .s_axil__araddr(host_araddr[11:0]),
        .s_axil__rvalid(host_rvalid), .s_axil__rready(host_rready),
        .s_axil__rdata(host_rdata), .s_axil__rresp(host_rresp),

        .m_axi__awvalid(mem_awvalid), .m_axi__awready(mem_awready),
        .m_axi__awid(mem_awid), .m_axi__awaddr(mem_awaddr), .m_axi__awlen(mem_awlen),
        .m_axi__awsize(mem_awsize), .m_axi__awburst(mem_awburst),
        .m_axi__wvalid(mem_wvalid), .m_axi__wready(mem_wready),
        .m_axi__wdata(mem_wdata), .m_axi__wstrb(mem_wstrb), .m_axi__wlast(mem_wlast),
        .m_axi__bvalid(mem_bvalid), .m_axi__bready(mem_bready),
        .m_axi__bid(mem_bid), .m_axi__bresp(mem_bresp),
        .m_axi__arvalid(mem_arvalid), .m_axi__arready(mem_arready),
        .m_axi__arid(mem_arid), .m_axi__araddr(mem_araddr), .m_axi__arlen(mem_arlen),
        .m_axi__arsize(mem_arsize), .m_axi__arburst(mem_arburst),
        .m_axi__rvalid(mem_rvalid), .m_axi__rready(mem_rready),
        .m_axi__rid(mem_rid), .m_axi__rdata(mem_rdata), .m_axi__rresp(mem_rresp),
        .m_axi__rlast(mem_rlast)
    );
endmodule
