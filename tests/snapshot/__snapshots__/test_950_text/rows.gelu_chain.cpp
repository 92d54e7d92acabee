namespace autofuse {

__simd_vf__ __no_simd_vf_fusion__ inline void r_0_row_0_nil_0_nil_unaligned_vf0(
    __ubuf__ float* x_local,
    __ubuf__ float* broadcast_0_local,
    __ubuf__ float* gate_local,
    __ubuf__ float* y_local,
    uint32_t count) {
  Reg::RegTensor<float> x_local_reg, broadcast_0_local_reg, n0_local_reg, n1_local_reg,
    n1_1_local_reg, n1_20_local_reg, n1_21_local_reg, n1_25_local_reg, n1_26_local_reg,
    n1_27_local_reg, n1_28_local_reg, n1_29_local_reg, n1_22_local_reg, n1_23_local_reg,
    n1_24_local_reg, n1_30_local_reg, n1_31_local_reg, n1_2_local_reg, n1_3_local_reg,
    n1_4_local_reg, n1_5_local_reg, n1_6_local_reg, n1_7_local_reg, n1_8_local_reg, n1_9_local_reg,
    n1_32_local_reg, n1_10_local_reg, n1_11_local_reg, n1_12_local_reg, n1_13_local_reg,
    n1_14_local_reg, n1_15_local_reg, n1_16_local_reg, n1_17_local_reg, n1_18_local_reg,
    n1_33_local_reg, n1_19_local_reg, n1_34_local_reg, gate_local_reg, y_local_reg;
  Reg::MaskReg mask;
  const uint16_t steps = static_cast<uint16_t>((count + 63) / 64);
  for (uint16_t i = 0; i < steps; ++i) {
    mask = Reg::UpdateMask<float>(count);
    // from: n0: Add (/nodes/0)
    Reg::LoadAlign(x_local_reg, x_local + i * 64);
    Reg::LoadAlign(broadcast_0_local_reg, broadcast_0_local + i * 64);
    Reg::Add(n0_local_reg, x_local_reg, broadcast_0_local_reg, mask);
    // from: n1: Abs (/nodes/1)
    Reg::Abs(n1_local_reg, n0_local_reg, mask);
    // from: n1_1: Mins (/nodes/1)
    Reg::Mins(n1_1_local_reg, n1_local_reg, 15.0f, mask);
    // from: n1_20: Adds (/nodes/1)
    Reg::Adds(n1_20_local_reg, n1_1_local_reg, 49152.0f, mask);
    // from: n1_21: Adds (/nodes/1)
    Reg::Adds(n1_21_local_reg, n1_20_local_reg, -49152.0f, mask);
    // from: n1_25: Sub (/nodes/1)
    Reg::Sub(n1_25_local_reg, n1_1_local_reg, n1_21_local_reg, mask);
    // from: n1_26: Add (/nodes/1)
    Reg::Add(n1_26_local_reg, n1_1_local_reg, n1_21_local_reg, mask);
    // from: n1_27: Mul (/nodes/1)
    Reg::Mul(n1_27_local_reg, n1_25_local_reg, n1_26_local_reg, mask);
    // from: n1_28: Muls (/nodes/1)
    Reg::Muls(n1_28_local_reg, n1_27_local_reg, -0.5f, mask);
    // from: n1_29: Exp (/nodes/1)
    Reg::Exp(n1_29_local_reg, n1_28_local_reg, mask);
    // from: n1_22: Mul (/nodes/1)
    Reg::Mul(n1_22_local_reg, n1_21_local_reg, n1_21_local_reg, mask);
    // from: n1_23: Muls (/nodes/1)
    Reg::Muls(n1_23_local_reg, n1_22_local_reg, -0.5f, mask);
    // from: n1_24: Exp (/nodes/1)
    Reg::Exp(n1_24_local_reg, n1_23_local_reg, mask);
    // from: n1_30: Mul (/nodes/1)
    Reg::Mul(n1_30_local_reg, n1_24_local_reg, n1_29_local_reg, mask);
    // from: n1_31: Mul (/nodes/1)
    Reg::Mul(n1_31_local_reg, n1_1_local_reg, n1_30_local_reg, mask);
    // from: n1_2: Muls (/nodes/1)
    Reg::Muls(n1_2_local_reg, n1_1_local_reg, 0.3989462f, mask);
    // from: n1_3: Adds (/nodes/1)
    Reg::Adds(n1_3_local_reg, n1_2_local_reg, 3.9143043f, mask);
    // from: n1_4: Mul (/nodes/1)
    Reg::Mul(n1_4_local_reg, n1_3_local_reg, n1_1_local_reg, mask);
    // from: n1_5: Adds (/nodes/1)
    Reg::Adds(n1_5_local_reg, n1_4_local_reg, 17.573383f, mask);
    // from: n1_6: Mul (/nodes/1)
    Reg::Mul(n1_6_local_reg, n1_5_local_reg, n1_1_local_reg, mask);
    // from: n1_7: Adds (/nodes/1)
    Reg::Adds(n1_7_local_reg, n1_6_local_reg, 41.879253f, mask);
    // from: n1_8: Mul (/nodes/1)
    Reg::Mul(n1_8_local_reg, n1_7_local_reg, n1_1_local_reg, mask);
    // from: n1_9: Adds (/nodes/1)
    Reg::Adds(n1_9_local_reg, n1_8_local_reg, 47.54673f, mask);
    // from: n1_32: Mul (/nodes/1)
    Reg::Mul(n1_32_local_reg, n1_9_local_reg, n1_31_local_reg, mask);
    // from: n1_10: Adds (/nodes/1)
    Reg::Adds(n1_10_local_reg, n1_1_local_reg, 9.812253f, mask);
    // from: n1_11: Mul (/nodes/1)
    Reg::Mul(n1_11_local_reg, n1_10_local_reg, n1_1_local_reg, mask);
    // from: n1_12: Adds (/nodes/1)
    Reg::Adds(n1_12_local_reg, n1_11_local_reg, 45.03683f, mask);
    // from: n1_13: Mul (/nodes/1)
    Reg::Mul(n1_13_local_reg, n1_12_local_reg, n1_1_local_reg, mask);
    // from: n1_14: Adds (/nodes/1)
    Reg::Adds(n1_14_local_reg, n1_13_local_reg, 114.96756f, mask);
    // from: n1_15: Mul (/nodes/1)
    Reg::Mul(n1_15_local_reg, n1_14_local_reg, n1_1_local_reg, mask);
    // from: n1_16: Adds (/nodes/1)
    Reg::Adds(n1_16_local_reg, n1_15_local_reg, 159.63216f, mask);
    // from: n1_17: Mul (/nodes/1)
    Reg::Mul(n1_17_local_reg, n1_16_local_reg, n1_1_local_reg, mask);
    // from: n1_18: Adds (/nodes/1)
    Reg::Adds(n1_18_local_reg, n1_17_local_reg, 95.09346f, mask);
    // from: n1_33: Div (/nodes/1)
    Reg::Div(n1_33_local_reg, n1_32_local_reg, n1_18_local_reg, mask);
    // from: n1_19: Maxs (/nodes/1)
    Reg::Maxs(n1_19_local_reg, n0_local_reg, 0.0f, mask);
    // from: n1_34: Sub (/nodes/1)
    Reg::Sub(n1_34_local_reg, n1_19_local_reg, n1_33_local_reg, mask);
    // from: n2: Mul (/nodes/2)
    Reg::LoadAlign(gate_local_reg, gate_local + i * 64);
    Reg::Mul(y_local_reg, n1_34_local_reg, gate_local_reg, mask);
    Reg::StoreAlign(y_local + i * 64, y_local_reg, mask);
  }
}

}  // namespace autofuse

// r_0_row_0_nil_0_nil_unaligned: z0 in tiles of z0t_size, z0T in blocks of z0Tb_size per core.
inline __aicore__ void r_0_row_0_nil_0_nil_unaligned(
    GM_ADDR x,
    GM_ADDR bias,
    GM_ADDR gate,
    GM_ADDR y,
    const AutofuseTilingData& t) {
  const int64_t z0t_size = t.z0t_size;
  const int64_t z0Tb_size = t.z0Tb_size;
  const int64_t z0T_axis_size = autofuse::CeilDiv(6400, z0t_size);
  const int64_t z0TB = GetBlockIdx();
  const int64_t z0Tb_loop_size = autofuse::Min(z0T_axis_size - z0TB * z0Tb_size, z0Tb_size);
  if (z0Tb_loop_size <= 0) {
    return;
  }
  GlobalTensor<float> bias_gm;
  bias_gm.SetGlobalBuffer((__gm__ float*)bias);
  GlobalTensor<float> x_gm;
  x_gm.SetGlobalBuffer((__gm__ float*)x);
  GlobalTensor<float> gate_gm;
  gate_gm.SetGlobalBuffer((__gm__ float*)gate);
  GlobalTensor<float> y_gm;
  y_gm.SetGlobalBuffer((__gm__ float*)y);
  TPipe tpipe;
  TQue<TPosition::VECIN, 2> x_queue;
  TQue<TPosition::VECIN, 2> gate_queue;
  TQue<TPosition::VECOUT, 2> y_queue;
  TBuf<TPosition::VECIN> shared0_buf;
  TBuf<TPosition::VECCALC> broadcast_0_buf;
  TBuf<TPosition::VECCALC> shared1_buf;
  TBuf<TPosition::VECCALC> shared2_buf;
  TBuf<TPosition::VECCALC> shared3_buf;
  TBuf<TPosition::VECCALC> n1_26_buf;
  const int64_t slot0_bytes = 2016 * z0t_size;
  tpipe.InitBuffer(x_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(gate_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(y_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared0_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(broadcast_0_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared1_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared2_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared3_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(n1_26_buf, static_cast<uint32_t>(slot0_bytes));
  LocalTensor<float> bias_local = shared0_buf.Get<float>();
  LocalTensor<float> broadcast_0_local = broadcast_0_buf.Get<float>();
  const DataCopyExtParams block0{1, 2000, 0, 0, 0};
  // from: gather_1: Load (/inputs/1)
  DataCopyPad(bias_local[0], bias_gm[0], block0, autofuse::NoPad<float>());
  // from: broadcast_0: Broadcast (/nodes/0)
  {
    const auto id = tpipe.AllocEventID<HardEvent::MTE2_V>();
    SetFlag<HardEvent::MTE2_V>(id);
    WaitFlag<HardEvent::MTE2_V>(id);
    // Keep the event id: other pipes may not have reached the wait yet.
  }
  autofuse::BroadcastOuter(broadcast_0_local[0], bias_local[0], 1, z0t_size, 504);
  PipeBarrier<PIPE_V>();
  for (int64_t z0Tb = 0; z0Tb < z0Tb_loop_size; z0Tb++) {
    const int64_t z0T = z0Tb + z0TB * z0Tb_size;
    const int64_t z0t_actual_size = autofuse::Min(6400 - z0T * z0t_size, z0t_size);
    const DataCopyExtParams block1{static_cast<uint16_t>(z0t_actual_size), 2000, 0, 0, 0};
    const int64_t offset0 = 500 * z0T * z0t_size;
    // from: gather_0: Load (/inputs/0)
    LocalTensor<float> x_local = x_queue.AllocTensor<float>();
    DataCopyPad(x_local[0], x_gm[offset0], block1, autofuse::NoPad<float>());
    x_queue.EnQue<float>(x_local);
    x_local = x_queue.DeQue<float>();
    // from: gather_2: Load (/inputs/2)
    LocalTensor<float> gate_local = gate_queue.AllocTensor<float>();
    DataCopyPad(gate_local[0], gate_gm[offset0], block1, autofuse::NoPad<float>());
    gate_queue.EnQue<float>(gate_local);
    gate_local = gate_queue.DeQue<float>();
    LocalTensor<float> y_local = y_queue.AllocTensor<float>();
    // from: n2: Mul (/nodes/2)
    autofuse::r_0_row_0_nil_0_nil_unaligned_vf0(
        (__ubuf__ float*)x_local.GetPhyAddr(),
        (__ubuf__ float*)broadcast_0_local.GetPhyAddr(),
        (__ubuf__ float*)gate_local.GetPhyAddr(),
        (__ubuf__ float*)y_local.GetPhyAddr(),
        static_cast<uint32_t>(504 * z0t_actual_size));
    x_queue.FreeTensor(x_local);
    gate_queue.FreeTensor(gate_local);
    // from: store: Store (/outputs/0)
    y_queue.EnQue<float>(y_local);
    y_local = y_queue.DeQue<float>();
    DataCopyPad(y_gm[offset0], y_local[0], block1);
    y_queue.FreeTensor(y_local);
  }
}
