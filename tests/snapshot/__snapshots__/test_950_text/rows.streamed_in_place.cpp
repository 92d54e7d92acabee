namespace autofuse {

__simd_vf__ __no_simd_vf_fusion__ inline void r_0_reduce_all_0_nil_0_nil_vf0(
    __ubuf__ float* x_local,
    __ubuf__ float* broadcast_0_local,
    __ubuf__ float* y_local,
    __ubuf__ float* n0_local,
    __ubuf__ float* n1_exp_local,
    uint16_t rows) {
  Reg::RegTensor<float> least_float32, zero_float32, n1_reducemax_local_reg0,
    n1_reducemax_local_reg1, n1_reducemax_local_reg2, n1_reducemax_local_reg3, x_local_reg0,
    broadcast_0_local_reg0, n0_local_reg0, x_local_reg1, broadcast_0_local_reg1, n0_local_reg1,
    x_local_reg2, broadcast_0_local_reg2, n0_local_reg2, x_local_reg3, broadcast_0_local_reg3,
    n0_local_reg3, x_local_reg32, broadcast_0_local_reg32, n0_local_reg32, n1_reducemax_local_reg4,
    n1_reducemax_local_reg, n1_reducesum_local_reg0, n1_reducesum_local_reg1,
    n1_reducesum_local_reg2, n1_reducesum_local_reg3, n1_sub_local_reg0, n1_exp_local_reg0,
    n1_sub_local_reg1, n1_exp_local_reg1, n1_sub_local_reg2, n1_exp_local_reg2, n1_sub_local_reg3,
    n1_exp_local_reg3, n1_sub_local_reg32, n1_exp_local_reg32, n1_reducesum_local_reg4,
    n1_reducesum_local_reg, y_local_reg0, y_local_reg32;
  Reg::MaskReg all, row, part;
  Reg::Duplicate(least_float32, -autofuse::kInfinity);
  Reg::Duplicate(zero_float32, 0.0f);
  all = Reg::CreateMask<float>();
  uint32_t row_lanes = 56;
  row = Reg::UpdateMask<float>(row_lanes);
  uint32_t part_lanes = 52;
  part = Reg::UpdateMask<float>(part_lanes);
  for (uint16_t r = 0; r < rows; ++r) {
    Reg::LocalMemBar<Reg::MemType::VEC_LOAD, Reg::MemType::VEC_STORE>();
    // from: n1_reducemax: ReduceMax (/nodes/1)
    Reg::Duplicate(n1_reducemax_local_reg0, -autofuse::kInfinity);
    Reg::Duplicate(n1_reducemax_local_reg1, -autofuse::kInfinity);
    Reg::Duplicate(n1_reducemax_local_reg2, -autofuse::kInfinity);
    Reg::Duplicate(n1_reducemax_local_reg3, -autofuse::kInfinity);
    for (uint16_t i = 0; i < 8; ++i) {
      Reg::LoadAlign(x_local_reg0, x_local + r * 2104 + i * 256);
      Reg::LoadAlign(broadcast_0_local_reg0, broadcast_0_local + r * 2104 + i * 256);
      // from: n0: Add (/nodes/0)
      Reg::Add(n0_local_reg0, x_local_reg0, broadcast_0_local_reg0, all);
      Reg::StoreAlign(n0_local + r * 2104 + i * 256, n0_local_reg0, all);
      Reg::Max(n1_reducemax_local_reg0, n1_reducemax_local_reg0, n0_local_reg0, all);
      Reg::LoadAlign(x_local_reg1, x_local + r * 2104 + i * 256 + 64);
      Reg::LoadAlign(broadcast_0_local_reg1, broadcast_0_local + r * 2104 + i * 256 + 64);
      Reg::Add(n0_local_reg1, x_local_reg1, broadcast_0_local_reg1, all);
      Reg::StoreAlign(n0_local + r * 2104 + i * 256 + 64, n0_local_reg1, all);
      Reg::Max(n1_reducemax_local_reg1, n1_reducemax_local_reg1, n0_local_reg1, all);
      Reg::LoadAlign(x_local_reg2, x_local + r * 2104 + i * 256 + 128);
      Reg::LoadAlign(broadcast_0_local_reg2, broadcast_0_local + r * 2104 + i * 256 + 128);
      Reg::Add(n0_local_reg2, x_local_reg2, broadcast_0_local_reg2, all);
      Reg::StoreAlign(n0_local + r * 2104 + i * 256 + 128, n0_local_reg2, all);
      Reg::Max(n1_reducemax_local_reg2, n1_reducemax_local_reg2, n0_local_reg2, all);
      Reg::LoadAlign(x_local_reg3, x_local + r * 2104 + i * 256 + 192);
      Reg::LoadAlign(broadcast_0_local_reg3, broadcast_0_local + r * 2104 + i * 256 + 192);
      Reg::Add(n0_local_reg3, x_local_reg3, broadcast_0_local_reg3, all);
      Reg::StoreAlign(n0_local + r * 2104 + i * 256 + 192, n0_local_reg3, all);
      Reg::Max(n1_reducemax_local_reg3, n1_reducemax_local_reg3, n0_local_reg3, all);
    }
    Reg::LoadAlign(x_local_reg32, x_local + r * 2104 + 2048);
    Reg::LoadAlign(broadcast_0_local_reg32, broadcast_0_local + r * 2104 + 2048);
    Reg::Add(n0_local_reg32, x_local_reg32, broadcast_0_local_reg32, row);
    Reg::StoreAlign(n0_local + r * 2104 + 2048, n0_local_reg32, row);
    Reg::Select(n1_reducemax_local_reg4, n0_local_reg32, least_float32, part);
    Reg::Max(n1_reducemax_local_reg0, n1_reducemax_local_reg0, n1_reducemax_local_reg1, all);
    Reg::Max(n1_reducemax_local_reg1, n1_reducemax_local_reg2, n1_reducemax_local_reg3, all);
    Reg::Max(n1_reducemax_local_reg0, n1_reducemax_local_reg0, n1_reducemax_local_reg1, all);
    Reg::Max(n1_reducemax_local_reg0, n1_reducemax_local_reg0, n1_reducemax_local_reg4, all);
    Reg::Reduce<Reg::ReduceType::MAX>(n1_reducemax_local_reg1, n1_reducemax_local_reg0, all);
    Reg::Duplicate(n1_reducemax_local_reg, n1_reducemax_local_reg1, all);
    Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>();
    // from: n1_reducesum: ReduceSum (/nodes/1)
    Reg::Duplicate(n1_reducesum_local_reg0, 0.0f);
    Reg::Duplicate(n1_reducesum_local_reg1, 0.0f);
    Reg::Duplicate(n1_reducesum_local_reg2, 0.0f);
    Reg::Duplicate(n1_reducesum_local_reg3, 0.0f);
    for (uint16_t i = 0; i < 8; ++i) {
      Reg::LoadAlign(n0_local_reg0, n0_local + r * 2104 + i * 256);
      // from: n1_sub: SubRow (/nodes/1)
      Reg::Sub(n1_sub_local_reg0, n0_local_reg0, n1_reducemax_local_reg, all);
      // from: n1_exp: Exp (/nodes/1)
      Reg::Exp(n1_exp_local_reg0, n1_sub_local_reg0, all);
      Reg::StoreAlign(n1_exp_local + r * 2104 + i * 256, n1_exp_local_reg0, all);
      Reg::Add(n1_reducesum_local_reg0, n1_reducesum_local_reg0, n1_exp_local_reg0, all);
      Reg::LoadAlign(n0_local_reg1, n0_local + r * 2104 + i * 256 + 64);
      Reg::Sub(n1_sub_local_reg1, n0_local_reg1, n1_reducemax_local_reg, all);
      Reg::Exp(n1_exp_local_reg1, n1_sub_local_reg1, all);
      Reg::StoreAlign(n1_exp_local + r * 2104 + i * 256 + 64, n1_exp_local_reg1, all);
      Reg::Add(n1_reducesum_local_reg1, n1_reducesum_local_reg1, n1_exp_local_reg1, all);
      Reg::LoadAlign(n0_local_reg2, n0_local + r * 2104 + i * 256 + 128);
      Reg::Sub(n1_sub_local_reg2, n0_local_reg2, n1_reducemax_local_reg, all);
      Reg::Exp(n1_exp_local_reg2, n1_sub_local_reg2, all);
      Reg::StoreAlign(n1_exp_local + r * 2104 + i * 256 + 128, n1_exp_local_reg2, all);
      Reg::Add(n1_reducesum_local_reg2, n1_reducesum_local_reg2, n1_exp_local_reg2, all);
      Reg::LoadAlign(n0_local_reg3, n0_local + r * 2104 + i * 256 + 192);
      Reg::Sub(n1_sub_local_reg3, n0_local_reg3, n1_reducemax_local_reg, all);
      Reg::Exp(n1_exp_local_reg3, n1_sub_local_reg3, all);
      Reg::StoreAlign(n1_exp_local + r * 2104 + i * 256 + 192, n1_exp_local_reg3, all);
      Reg::Add(n1_reducesum_local_reg3, n1_reducesum_local_reg3, n1_exp_local_reg3, all);
    }
    Reg::LoadAlign(n0_local_reg32, n0_local + r * 2104 + 2048);
    Reg::Sub(n1_sub_local_reg32, n0_local_reg32, n1_reducemax_local_reg, row);
    Reg::Exp(n1_exp_local_reg32, n1_sub_local_reg32, row);
    Reg::StoreAlign(n1_exp_local + r * 2104 + 2048, n1_exp_local_reg32, row);
    Reg::Select(n1_reducesum_local_reg4, n1_exp_local_reg32, zero_float32, part);
    Reg::Add(n1_reducesum_local_reg0, n1_reducesum_local_reg0, n1_reducesum_local_reg1, all);
    Reg::Add(n1_reducesum_local_reg1, n1_reducesum_local_reg2, n1_reducesum_local_reg3, all);
    Reg::Add(n1_reducesum_local_reg0, n1_reducesum_local_reg0, n1_reducesum_local_reg1, all);
    Reg::Add(n1_reducesum_local_reg0, n1_reducesum_local_reg0, n1_reducesum_local_reg4, all);
    Reg::Reduce<Reg::ReduceType::SUM>(n1_reducesum_local_reg1, n1_reducesum_local_reg0, all);
    Reg::Duplicate(n1_reducesum_local_reg, n1_reducesum_local_reg1, all);
    Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>();
    for (uint16_t i = 0; i < 32; ++i) {
      Reg::LoadAlign(n1_exp_local_reg0, n1_exp_local + r * 2104 + i * 64);
      // from: n1: DivRow (/nodes/1)
      Reg::Div(y_local_reg0, n1_exp_local_reg0, n1_reducesum_local_reg, all);
      Reg::StoreAlign(y_local + r * 2104 + i * 64, y_local_reg0, all);
    }
    Reg::Div(y_local_reg32, n1_exp_local_reg32, n1_reducesum_local_reg, row);
    Reg::StoreAlign(y_local + r * 2104 + 2048, y_local_reg32, row);
  }
}

}  // namespace autofuse

// r_0_reduce_all_0_nil_0_nil: z0 in tiles of z0t_size, z0T in blocks of z0Tb_size per core.
inline __aicore__ void r_0_reduce_all_0_nil_0_nil(
    GM_ADDR x,
    GM_ADDR shift,
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
  GlobalTensor<float> shift_gm;
  shift_gm.SetGlobalBuffer((__gm__ float*)shift);
  GlobalTensor<float> x_gm;
  x_gm.SetGlobalBuffer((__gm__ float*)x);
  GlobalTensor<float> y_gm;
  y_gm.SetGlobalBuffer((__gm__ float*)y);
  TPipe tpipe;
  TQue<TPosition::VECIN, 2> x_queue;
  TQue<TPosition::VECOUT, 2> y_queue;
  TBuf<TPosition::VECIN> shared0_buf;
  TBuf<TPosition::VECCALC> broadcast_0_buf;
  TBuf<TPosition::VECCALC> shared1_buf;
  TBuf<TPosition::VECCALC> shared2_buf;
  const int64_t slot0_bytes = 8416 * z0t_size;
  const int64_t shared1_buf_bytes = 1216 * z0t_size;
  const int64_t shared2_buf_bytes = 32 * autofuse::CeilDiv(4 * z0t_size, 32);
  tpipe.InitBuffer(x_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(y_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared0_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(broadcast_0_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared1_buf, static_cast<uint32_t>(shared1_buf_bytes));
  tpipe.InitBuffer(shared2_buf, static_cast<uint32_t>(shared2_buf_bytes));
  LocalTensor<float> shift_local = shared0_buf.Get<float>();
  LocalTensor<float> broadcast_0_local = broadcast_0_buf.Get<float>();
  LocalTensor<float> n0_local = shared0_buf.Get<float>();
  LocalTensor<float> n1_exp_local = shared0_buf.Get<float>();
  const DataCopyExtParams block0{1, 8400, 0, 0, 0};
  // from: gather_1: Load (/inputs/1)
  DataCopyPad(shift_local[0], shift_gm[0], block0, autofuse::NoPad<float>());
  // from: broadcast_0: Broadcast (/nodes/0)
  {
    const auto id = tpipe.AllocEventID<HardEvent::MTE2_V>();
    SetFlag<HardEvent::MTE2_V>(id);
    WaitFlag<HardEvent::MTE2_V>(id);
    // Keep the event id: other pipes may not have reached the wait yet.
  }
  autofuse::BroadcastOuter(broadcast_0_local[0], shift_local[0], 1, z0t_size, 2104);
  for (int64_t z0Tb = 0; z0Tb < z0Tb_loop_size; z0Tb++) {
    const int64_t z0T = z0Tb + z0TB * z0Tb_size;
    const int64_t z0t_actual_size = autofuse::Min(6400 - z0T * z0t_size, z0t_size);
    const DataCopyExtParams block1{static_cast<uint16_t>(z0t_actual_size), 8400, 0, 0, 0};
    const int64_t offset0 = 2100 * z0T * z0t_size;
    // from: gather_0: Load (/inputs/0)
    LocalTensor<float> x_local = x_queue.AllocTensor<float>();
    DataCopyPad(x_local[0], x_gm[offset0], block1, autofuse::NoPad<float>());
    x_queue.EnQue<float>(x_local);
    x_local = x_queue.DeQue<float>();
    LocalTensor<float> y_local = y_queue.AllocTensor<float>();
    PipeBarrier<PIPE_V>();
    // from: n1: DivRow (/nodes/1)
    autofuse::r_0_reduce_all_0_nil_0_nil_vf0(
        (__ubuf__ float*)x_local.GetPhyAddr(),
        (__ubuf__ float*)broadcast_0_local.GetPhyAddr(),
        (__ubuf__ float*)y_local.GetPhyAddr(),
        (__ubuf__ float*)n0_local.GetPhyAddr(),
        (__ubuf__ float*)n1_exp_local.GetPhyAddr(),
        static_cast<uint16_t>(z0t_actual_size));
    x_queue.FreeTensor(x_local);
    // from: store: Store (/outputs/0)
    y_queue.EnQue<float>(y_local);
    y_local = y_queue.DeQue<float>();
    DataCopyPad(y_gm[offset0], y_local[0], block1);
    y_queue.FreeTensor(y_local);
  }
}
