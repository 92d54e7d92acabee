namespace autofuse {

__simd_vf__ __no_simd_vf_fusion__ inline void r_0_reduce_all_0_nil_0_nil_vf0(
    __ubuf__ float* beta_local,
    __ubuf__ float* v_gamma_local,
    __ubuf__ float* x_local,
    __ubuf__ float* y_local,
    uint16_t rows) {
  Reg::RegTensor<float> n6_1_local_reg, n1_local_reg, zero_float32, x_local_reg0, x_local_reg1,
    n1_reducesum_local_reg0, x_local_reg2, x_local_reg3, n1_reducesum_local_reg1, x_local_reg4,
    x_local_reg5, x_local_reg6, x_local_reg7, n1_reducesum_local_reg3, n1_reducesum_local_reg2,
    n1_reducesum_local_reg, n1_1_local_reg, n2_local_reg0, n3_local_reg0, n2_local_reg1,
    n3_local_reg1, n4_reducesum_local_reg0, n2_local_reg2, n3_local_reg2, n2_local_reg3,
    n3_local_reg3, n4_reducesum_local_reg1, n2_local_reg4, n3_local_reg4, n2_local_reg5,
    n3_local_reg5, n2_local_reg6, n3_local_reg6, n2_local_reg7, n3_local_reg7,
    n4_reducesum_local_reg3, n4_reducesum_local_reg2, n4_reducesum_local_reg, n4_local_reg,
    n5_local_reg, n6_local_reg, n6_2_local_reg, beta_local_reg0, v_gamma_local_reg0, n7_local_reg0,
    n9_local_reg0, y_local_reg0, beta_local_reg1, v_gamma_local_reg1, n7_local_reg1, n9_local_reg1,
    y_local_reg1, beta_local_reg2, v_gamma_local_reg2, n7_local_reg2, n9_local_reg2, y_local_reg2,
    beta_local_reg3, v_gamma_local_reg3, n7_local_reg3, n9_local_reg3, y_local_reg3,
    beta_local_reg4, v_gamma_local_reg4, n7_local_reg4, n9_local_reg4, y_local_reg4,
    beta_local_reg5, v_gamma_local_reg5, n7_local_reg5, n9_local_reg5, y_local_reg5,
    beta_local_reg6, v_gamma_local_reg6, n7_local_reg6, n9_local_reg6, y_local_reg6,
    beta_local_reg7, v_gamma_local_reg7, n7_local_reg7, n9_local_reg7, y_local_reg7;
  Reg::MaskReg all, row, part;
  Reg::Duplicate(n6_1_local_reg, 1.0f);
  Reg::Duplicate(n1_local_reg, 5e+02f);
  Reg::Duplicate(zero_float32, 0.0f);
  all = Reg::CreateMask<float>();
  uint32_t row_lanes = 56;
  row = Reg::UpdateMask<float>(row_lanes);
  uint32_t part_lanes = 52;
  part = Reg::UpdateMask<float>(part_lanes);
  for (uint16_t r = 0; r < rows; ++r) {
    Reg::LoadAlign(x_local_reg0, x_local + r * 504);
    Reg::LoadAlign(x_local_reg1, x_local + r * 504 + 64);
    // from: n1_reducesum: ReduceSum (/nodes/1)
    Reg::Add(n1_reducesum_local_reg0, x_local_reg0, x_local_reg1, all);
    Reg::LoadAlign(x_local_reg2, x_local + r * 504 + 128);
    Reg::LoadAlign(x_local_reg3, x_local + r * 504 + 192);
    Reg::Add(n1_reducesum_local_reg1, x_local_reg2, x_local_reg3, all);
    Reg::Add(n1_reducesum_local_reg0, n1_reducesum_local_reg0, n1_reducesum_local_reg1, all);
    Reg::LoadAlign(x_local_reg4, x_local + r * 504 + 256);
    Reg::LoadAlign(x_local_reg5, x_local + r * 504 + 320);
    Reg::Add(n1_reducesum_local_reg1, x_local_reg4, x_local_reg5, all);
    Reg::LoadAlign(x_local_reg6, x_local + r * 504 + 384);
    Reg::LoadAlign(x_local_reg7, x_local + r * 504 + 448);
    Reg::Select(n1_reducesum_local_reg3, x_local_reg7, zero_float32, part);
    Reg::Add(n1_reducesum_local_reg2, x_local_reg6, n1_reducesum_local_reg3, all);
    Reg::Add(n1_reducesum_local_reg1, n1_reducesum_local_reg1, n1_reducesum_local_reg2, all);
    Reg::Add(n1_reducesum_local_reg0, n1_reducesum_local_reg0, n1_reducesum_local_reg1, all);
    Reg::Reduce<Reg::ReduceType::SUM>(n1_reducesum_local_reg1, n1_reducesum_local_reg0, all);
    Reg::Duplicate(n1_reducesum_local_reg, n1_reducesum_local_reg1, all);
    // from: n1_1: Div (/nodes/1)
    Reg::Div(n1_1_local_reg, n1_reducesum_local_reg, n1_local_reg, all);
    // from: n2: SubRow (/nodes/2)
    Reg::Sub(n2_local_reg0, x_local_reg0, n1_1_local_reg, all);
    // from: n3: Mul (/nodes/3)
    Reg::Mul(n3_local_reg0, n2_local_reg0, n2_local_reg0, all);
    Reg::Sub(n2_local_reg1, x_local_reg1, n1_1_local_reg, all);
    Reg::Mul(n3_local_reg1, n2_local_reg1, n2_local_reg1, all);
    // from: n4_reducesum: ReduceSum (/nodes/4)
    Reg::Add(n4_reducesum_local_reg0, n3_local_reg0, n3_local_reg1, all);
    Reg::Sub(n2_local_reg2, x_local_reg2, n1_1_local_reg, all);
    Reg::Mul(n3_local_reg2, n2_local_reg2, n2_local_reg2, all);
    Reg::Sub(n2_local_reg3, x_local_reg3, n1_1_local_reg, all);
    Reg::Mul(n3_local_reg3, n2_local_reg3, n2_local_reg3, all);
    Reg::Add(n4_reducesum_local_reg1, n3_local_reg2, n3_local_reg3, all);
    Reg::Add(n4_reducesum_local_reg0, n4_reducesum_local_reg0, n4_reducesum_local_reg1, all);
    Reg::Sub(n2_local_reg4, x_local_reg4, n1_1_local_reg, all);
    Reg::Mul(n3_local_reg4, n2_local_reg4, n2_local_reg4, all);
    Reg::Sub(n2_local_reg5, x_local_reg5, n1_1_local_reg, all);
    Reg::Mul(n3_local_reg5, n2_local_reg5, n2_local_reg5, all);
    Reg::Add(n4_reducesum_local_reg1, n3_local_reg4, n3_local_reg5, all);
    Reg::Sub(n2_local_reg6, x_local_reg6, n1_1_local_reg, all);
    Reg::Mul(n3_local_reg6, n2_local_reg6, n2_local_reg6, all);
    Reg::Sub(n2_local_reg7, x_local_reg7, n1_1_local_reg, row);
    Reg::Mul(n3_local_reg7, n2_local_reg7, n2_local_reg7, row);
    Reg::Select(n4_reducesum_local_reg3, n3_local_reg7, zero_float32, part);
    Reg::Add(n4_reducesum_local_reg2, n3_local_reg6, n4_reducesum_local_reg3, all);
    Reg::Add(n4_reducesum_local_reg1, n4_reducesum_local_reg1, n4_reducesum_local_reg2, all);
    Reg::Add(n4_reducesum_local_reg0, n4_reducesum_local_reg0, n4_reducesum_local_reg1, all);
    Reg::Reduce<Reg::ReduceType::SUM>(n4_reducesum_local_reg1, n4_reducesum_local_reg0, all);
    Reg::Duplicate(n4_reducesum_local_reg, n4_reducesum_local_reg1, all);
    // from: n4: Div (/nodes/4)
    Reg::Div(n4_local_reg, n4_reducesum_local_reg, n1_local_reg, all);
    // from: n5: Adds (/nodes/5)
    Reg::Adds(n5_local_reg, n4_local_reg, 1e-05f, all);
    // from: n6: Sqrt (/nodes/6)
    Reg::Sqrt(n6_local_reg, n5_local_reg, all);
    // from: n6_2: Div (/nodes/6)
    Reg::Div(n6_2_local_reg, n6_1_local_reg, n6_local_reg, all);
    Reg::LoadAlign(beta_local_reg0, beta_local);
    Reg::LoadAlign(v_gamma_local_reg0, v_gamma_local);
    // from: n7: MulRow (/nodes/7)
    Reg::Mul(n7_local_reg0, n2_local_reg0, n6_2_local_reg, all);
    // from: n9: Mul (/nodes/9)
    Reg::Mul(n9_local_reg0, n7_local_reg0, v_gamma_local_reg0, all);
    // from: n11: Add (/nodes/11)
    Reg::Add(y_local_reg0, n9_local_reg0, beta_local_reg0, all);
    Reg::StoreAlign(y_local + r * 504, y_local_reg0, all);
    Reg::LoadAlign(beta_local_reg1, beta_local + 64);
    Reg::LoadAlign(v_gamma_local_reg1, v_gamma_local + 64);
    Reg::Mul(n7_local_reg1, n2_local_reg1, n6_2_local_reg, all);
    Reg::Mul(n9_local_reg1, n7_local_reg1, v_gamma_local_reg1, all);
    Reg::Add(y_local_reg1, n9_local_reg1, beta_local_reg1, all);
    Reg::StoreAlign(y_local + r * 504 + 64, y_local_reg1, all);
    Reg::LoadAlign(beta_local_reg2, beta_local + 128);
    Reg::LoadAlign(v_gamma_local_reg2, v_gamma_local + 128);
    Reg::Mul(n7_local_reg2, n2_local_reg2, n6_2_local_reg, all);
    Reg::Mul(n9_local_reg2, n7_local_reg2, v_gamma_local_reg2, all);
    Reg::Add(y_local_reg2, n9_local_reg2, beta_local_reg2, all);
    Reg::StoreAlign(y_local + r * 504 + 128, y_local_reg2, all);
    Reg::LoadAlign(beta_local_reg3, beta_local + 192);
    Reg::LoadAlign(v_gamma_local_reg3, v_gamma_local + 192);
    Reg::Mul(n7_local_reg3, n2_local_reg3, n6_2_local_reg, all);
    Reg::Mul(n9_local_reg3, n7_local_reg3, v_gamma_local_reg3, all);
    Reg::Add(y_local_reg3, n9_local_reg3, beta_local_reg3, all);
    Reg::StoreAlign(y_local + r * 504 + 192, y_local_reg3, all);
    Reg::LoadAlign(beta_local_reg4, beta_local + 256);
    Reg::LoadAlign(v_gamma_local_reg4, v_gamma_local + 256);
    Reg::Mul(n7_local_reg4, n2_local_reg4, n6_2_local_reg, all);
    Reg::Mul(n9_local_reg4, n7_local_reg4, v_gamma_local_reg4, all);
    Reg::Add(y_local_reg4, n9_local_reg4, beta_local_reg4, all);
    Reg::StoreAlign(y_local + r * 504 + 256, y_local_reg4, all);
    Reg::LoadAlign(beta_local_reg5, beta_local + 320);
    Reg::LoadAlign(v_gamma_local_reg5, v_gamma_local + 320);
    Reg::Mul(n7_local_reg5, n2_local_reg5, n6_2_local_reg, all);
    Reg::Mul(n9_local_reg5, n7_local_reg5, v_gamma_local_reg5, all);
    Reg::Add(y_local_reg5, n9_local_reg5, beta_local_reg5, all);
    Reg::StoreAlign(y_local + r * 504 + 320, y_local_reg5, all);
    Reg::LoadAlign(beta_local_reg6, beta_local + 384);
    Reg::LoadAlign(v_gamma_local_reg6, v_gamma_local + 384);
    Reg::Mul(n7_local_reg6, n2_local_reg6, n6_2_local_reg, all);
    Reg::Mul(n9_local_reg6, n7_local_reg6, v_gamma_local_reg6, all);
    Reg::Add(y_local_reg6, n9_local_reg6, beta_local_reg6, all);
    Reg::StoreAlign(y_local + r * 504 + 384, y_local_reg6, all);
    Reg::LoadAlign(beta_local_reg7, beta_local + 448);
    Reg::LoadAlign(v_gamma_local_reg7, v_gamma_local + 448);
    Reg::Mul(n7_local_reg7, n2_local_reg7, n6_2_local_reg, row);
    Reg::Mul(n9_local_reg7, n7_local_reg7, v_gamma_local_reg7, row);
    Reg::Add(y_local_reg7, n9_local_reg7, beta_local_reg7, row);
    Reg::StoreAlign(y_local + r * 504 + 448, y_local_reg7, row);
  }
}

}  // namespace autofuse

// r_0_reduce_all_0_nil_0_nil: z0 in tiles of z0t_size, z0T in blocks of z0Tb_size per core.
inline __aicore__ void r_0_reduce_all_0_nil_0_nil(
    GM_ADDR x,
    GM_ADDR v_gamma,
    GM_ADDR beta,
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
  GlobalTensor<float> v_gamma_gm;
  v_gamma_gm.SetGlobalBuffer((__gm__ float*)v_gamma);
  GlobalTensor<float> beta_gm;
  beta_gm.SetGlobalBuffer((__gm__ float*)beta);
  GlobalTensor<float> x_gm;
  x_gm.SetGlobalBuffer((__gm__ float*)x);
  GlobalTensor<float> y_gm;
  y_gm.SetGlobalBuffer((__gm__ float*)y);
  TPipe tpipe;
  TQue<TPosition::VECIN, 2> x_queue;
  TQue<TPosition::VECOUT, 2> y_queue;
  TBuf<TPosition::VECCALC> n1_buf;
  TBuf<TPosition::VECCALC> n6_1_buf;
  TBuf<TPosition::VECIN> shared0_buf;
  TBuf<TPosition::VECCALC> broadcast_2_buf;
  TBuf<TPosition::VECIN> shared1_buf;
  TBuf<TPosition::VECCALC> shared2_buf;
  TBuf<TPosition::VECCALC> shared3_buf;
  TBuf<TPosition::VECCALC> shared4_buf;
  const int64_t slot0_bytes = 2016 * z0t_size;
  const int64_t slot1_bytes = 32 * autofuse::CeilDiv(4 * z0t_size, 32);
  const int64_t shared2_buf_bytes = 288 * z0t_size;
  tpipe.InitBuffer(x_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(y_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(n1_buf, static_cast<uint32_t>(slot1_bytes));
  tpipe.InitBuffer(n6_1_buf, static_cast<uint32_t>(slot1_bytes));
  tpipe.InitBuffer(shared0_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(broadcast_2_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared1_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared2_buf, static_cast<uint32_t>(shared2_buf_bytes));
  tpipe.InitBuffer(shared3_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared4_buf, static_cast<uint32_t>(slot1_bytes));
  LocalTensor<float> v_gamma_local = shared0_buf.Get<float>();
  LocalTensor<float> beta_local = shared1_buf.Get<float>();
  const DataCopyExtParams block0{1, 2000, 0, 0, 0};
  // from: gather_1: Load (/inputs/1)
  DataCopyPad(v_gamma_local[0], v_gamma_gm[0], block0, autofuse::NoPad<float>());
  // from: gather_2: Load (/inputs/2)
  DataCopyPad(beta_local[0], beta_gm[0], block0, autofuse::NoPad<float>());
  // from: broadcast_2: Broadcast (/nodes/9)
  {
    const auto id = tpipe.AllocEventID<HardEvent::MTE2_V>();
    SetFlag<HardEvent::MTE2_V>(id);
    WaitFlag<HardEvent::MTE2_V>(id);
    // Keep the event id: other pipes may not have reached the wait yet.
  }
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
    LocalTensor<float> y_local = y_queue.AllocTensor<float>();
    // from: n11: Add (/nodes/11)
    autofuse::r_0_reduce_all_0_nil_0_nil_vf0(
        (__ubuf__ float*)beta_local.GetPhyAddr(),
        (__ubuf__ float*)v_gamma_local.GetPhyAddr(),
        (__ubuf__ float*)x_local.GetPhyAddr(),
        (__ubuf__ float*)y_local.GetPhyAddr(),
        static_cast<uint16_t>(z0t_actual_size));
    x_queue.FreeTensor(x_local);
    // from: store: Store (/outputs/0)
    y_queue.EnQue<float>(y_local);
    y_local = y_queue.DeQue<float>();
    DataCopyPad(y_gm[offset0], y_local[0], block1);
    y_queue.FreeTensor(y_local);
  }
}
