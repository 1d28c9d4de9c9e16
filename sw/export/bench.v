// Bench of a core: a host on its registers, a memory on its bus. Icarus Verilog and Verilator run it.
//
// +program=FILE +inputs=FILE  contents of the memory, for $readmemh
// +once=ADDRESS +once_words=N program that runs first, hexadecimal and decimal
// +each=ADDRESS +each_words=N program that runs then
// +outputs=ADDRESS +bytes=N   bytes that are printed in the end

module bench;
  parameter BYTES = 4;         // bus_bytes of the core: 4 for pico and nano, 8 for micro
  parameter WORDS = 1 << 16;   // of 4 bytes, in memory
  parameter LIMIT = 1 << 20;   // cycles of a program

  reg clk = 0, rst = 1;
  always #5 clk = ~clk;

  // The memory: one burst at a time, a beat each cycle.
  reg [31:0] memory [0:WORDS - 1];
  wire awvalid, wvalid, wlast, bready, arvalid, arid, rready, irq;
  wire [31:0] awaddr, araddr;
  wire [7:0] arlen;
  wire [8 * BYTES - 1:0] wdata;
  wire [BYTES - 1:0] wstrb;
  reg bvalid = 0, rvalid = 0, writing = 0, rid = 0;
  reg [31:0] write_address = 0, read_address = 0;
  reg [7:0] beats_left = 0;
  wire [8 * BYTES - 1:0] rdata;
  integer lane;

  always @(posedge clk) begin
    if (awvalid && !writing && !bvalid) begin
      writing <= 1;
      write_address <= awaddr;
    end
    if (writing && wvalid) begin
      for (lane = 0; lane < BYTES; lane = lane + 1)
        if (wstrb[lane])
          memory[(write_address + lane) >> 2][8 * (lane & 3) +: 8] <= wdata[8 * lane +: 8];
      write_address <= write_address + BYTES;
      writing <= !wlast;
      bvalid <= wlast;
    end
    if (bvalid && bready) bvalid <= 0;

    if (arvalid && !rvalid) begin
      rvalid <= 1;
      rid <= arid;
      read_address <= araddr;
      beats_left <= arlen;
    end else if (rvalid && rready) begin
      rvalid <= beats_left != 0;
      read_address <= read_address + BYTES;
      beats_left <= beats_left - 8'd1;
    end
  end

  genvar word;
  generate
    for (word = 0; word < BYTES / 4; word = word + 1)
      assign rdata[32 * word +: 32] = memory[(read_address >> 2) + word];
  endgenerate

  // The host.
  reg s_awvalid = 0, s_wvalid = 0, s_arvalid = 0, aw_taken, w_taken, ar_taken;
  reg [11:0] s_awaddr = 0, s_araddr = 0;
  reg [31:0] s_wdata = 0;
  wire s_awready, s_wready, s_bvalid, s_arready, s_rvalid;
  wire [31:0] s_rdata;

  // It changes its signals at the falling edge: the core reads them at the rising one.
  task write(input [11:0] offset, input [31:0] value);
    begin
      s_awaddr = offset; s_wdata = value; s_awvalid = 1; s_wvalid = 1;
      while (!s_bvalid) begin
        #1 aw_taken = s_awready; w_taken = s_wready;
        @(negedge clk);
        if (aw_taken) s_awvalid = 0;
        if (w_taken) s_wvalid = 0;
      end
      @(negedge clk);
    end
  endtask

  task read(input [11:0] offset, output [31:0] value);
    begin
      s_araddr = offset; s_arvalid = 1;
      while (!s_rvalid) begin
        #1 ar_taken = s_arready;
        @(negedge clk);
        if (ar_taken) s_arvalid = 0;
      end
      value = s_rdata;
      @(negedge clk);
    end
  endtask

  // Offsets: docs/reference/registers.md.
  localparam FINGERPRINT = 12'h008, CONTROL = 12'h00c, STATUS = 12'h010, ENABLE = 12'h014;
  localparam INTERRUPT = 12'h018, ADDRESS = 12'h01c, LENGTH = 12'h020, CYCLES = 12'h034;
  integer waited;
  reg [31:0] status, cycles;

  task run(input [31:0] address, input [31:0] words);
    begin
      write(ADDRESS, address);
      write(LENGTH, words);
      write(CONTROL, 4);  // clear the counters
      repeat (40) @(negedge clk);
      write(CONTROL, 1);  // start
      for (waited = 0; !irq && waited < LIMIT; waited = waited + 1) @(negedge clk);
      read(STATUS, status);
      read(CYCLES, cycles);
      write(INTERRUPT, 3);
      $display("%0d words: status %0d, %0d cycles", words, status, cycles);
    end
  endtask

  reg [8 * 256 - 1:0] file;
  integer address, words, bytes, n;
  reg signed [7:0] value;

  initial begin
    if ($value$plusargs("program=%s", file)) $readmemh(file, memory);
    if ($value$plusargs("inputs=%s", file)) $readmemh(file, memory);
    repeat (8) @(negedge clk);
    rst = 0;
    repeat (8) @(negedge clk);
    read(FINGERPRINT, status);
    $display("fingerprint 0x%h", status);
    write(ENABLE, 3);
    if ($value$plusargs("once=%h", address) && $value$plusargs("once_words=%d", words))
      run(address, words);
    if ($value$plusargs("each=%h", address) && $value$plusargs("each_words=%d", words))
      run(address, words);
    if ($value$plusargs("outputs=%h", address) && $value$plusargs("bytes=%d", bytes)) begin
      for (n = address; n < address + bytes; n = n + 1) begin
        value = memory[n >> 2][8 * (n & 3) +: 8];
        $write(" %0d", value);
      end
      $write("\n");
    end
    $finish;
  end

  celosia core (
    .clk(clk), .rst(rst), .irq(irq),
    .m_axi__awvalid(awvalid), .m_axi__awready(!writing && !bvalid), .m_axi__awaddr(awaddr),
    .m_axi__awid(), .m_axi__awlen(), .m_axi__awsize(), .m_axi__awburst(),
    .m_axi__wvalid(wvalid), .m_axi__wready(writing), .m_axi__wdata(wdata),
    .m_axi__wstrb(wstrb), .m_axi__wlast(wlast),
    .m_axi__bvalid(bvalid), .m_axi__bready(bready), .m_axi__bid(1'b0), .m_axi__bresp(2'b0),
    .m_axi__arvalid(arvalid), .m_axi__arready(!rvalid), .m_axi__araddr(araddr),
    .m_axi__arid(arid), .m_axi__arlen(arlen), .m_axi__arsize(), .m_axi__arburst(),
    .m_axi__rvalid(rvalid), .m_axi__rready(rready), .m_axi__rdata(rdata), .m_axi__rid(rid),
    .m_axi__rresp(2'b0), .m_axi__rlast(beats_left == 0),
    .s_axil__awvalid(s_awvalid), .s_axil__awready(s_awready), .s_axil__awaddr(s_awaddr),
    .s_axil__wvalid(s_wvalid), .s_axil__wready(s_wready), .s_axil__wdata(s_wdata),
    .s_axil__wstrb(4'hf),
    .s_axil__bvalid(s_bvalid), .s_axil__bready(1'b1), .s_axil__bresp(),
    .s_axil__arvalid(s_arvalid), .s_axil__arready(s_arready), .s_axil__araddr(s_araddr),
    .s_axil__rvalid(s_rvalid), .s_axil__rready(1'b1), .s_axil__rdata(s_rdata), .s_axil__rresp()
  );
endmodule
