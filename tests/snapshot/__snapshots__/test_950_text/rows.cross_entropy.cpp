namespace autofuse {

__simd_vf__ __no_simd_vf_fusion__ inline void r_0_reduce_all_0_nil_0_nil_vf0(
    __ubuf__ float* x_local,
    __ubuf__ int32_t* label_local,
    __ubuf__ int32_t* broadcast_2_local,
    __ubuf__ float* y_local,
    uint16_t rows) {
  Reg::RegTensor<float> n3_local_other, least_float32, zero_float32, x_local_reg0, x_local_reg1,
    n0_reducemax_local_reg0, x_local_reg2, x_local_reg3, n0_reducemax_local_reg1, x_local_reg4,
    x_local_reg5, x_local_reg6, x_local_reg7, n0_reducemax_local_reg3, n0_reducemax_local_reg2,
    n0_reducemax_local_reg, n0_sub_local_reg0, n0_exp_local_reg0, n0_sub_local_reg1,
    n0_exp_local_reg1, n0_reducesum_local_reg0, n0_sub_local_reg2, n0_exp_local_reg2,
    n0_sub_local_reg3, n0_exp_local_reg3, n0_reducesum_local_reg1, n0_sub_local_reg4,
    n0_exp_local_reg4, n0_sub_local_reg5, n0_exp_local_reg5, n0_sub_local_reg6, n0_exp_local_reg6,
    n0_sub_local_reg7, n0_exp_local_reg7, n0_reducesum_local_reg3, n0_reducesum_local_reg2,
    n0_reducesum_local_reg, n0_ln_local_reg, n0_local_reg0, n3_local_reg0, n0_local_reg1,
    n3_local_reg1, n4_local_reg0, n0_local_reg2, n3_local_reg2, n0_local_reg3, n3_local_reg3,
    n4_local_reg1, n0_local_reg4, n3_local_reg4, n0_local_reg5, n3_local_reg5, n0_local_reg6,
    n3_local_reg6, n0_local_reg7, n3_local_reg7, n4_local_reg3, n4_local_reg2, n4_local_reg,
    y_local_reg;
  Reg::RegTensor<int32_t> label_local_reg, broadcast_2_local_reg0, broadcast_2_local_reg1,
    broadcast_2_local_reg2, broadcast_2_local_reg3, broadcast_2_local_reg4, broadcast_2_local_reg5,
    broadcast_2_local_reg6, broadcast_2_local_reg7;
  Reg::MaskReg all, n2_local_reg0, n2_local_reg1, n2_local_reg2, n2_local_reg3, n2_local_reg4,
    n2_local_reg5, n2_local_reg6, n2_local_reg7, row, part;
  Reg::Duplicate(n3_local_other, 0.0f);
  Reg::Duplicate(least_float32, -autofuse::kInfinity);
  Reg::Duplicate(zero_float32, 0.0f);
  all = Reg::CreateMask<float>();
  uint32_t row_lanes = 56;
  row = Reg::UpdateMask<float>(row_lanes);
  uint32_t part_lanes = 52;
  part = Reg::UpdateMask<float>(part_lanes);
  for (uint16_t r = 0; r < rows; ++r) {
    Reg::LoadAlign(x_local_reg0, x_local + r * 504);
    Reg::LoadAlign(x_local_reg1, x_local + r * 504 + 64);
    // from: n0_reducemax: ReduceMax (/nodes/0)
    Reg::Max(n0_reducemax_local_reg0, x_local_reg0, x_local_reg1, all);
    Reg::LoadAlign(x_local_reg2, x_local + r * 504 + 128);
    Reg::LoadAlign(x_local_reg3, x_local + r * 504 + 192);
    Reg::Max(n0_reducemax_local_reg1, x_local_reg2, x_local_reg3, all);
    Reg::Max(n0_reducemax_local_reg0, n0_reducemax_local_reg0, n0_reducemax_local_reg1, all);
    Reg::LoadAlign(x_local_reg4, x_local + r * 504 + 256);
    Reg::LoadAlign(x_local_reg5, x_local + r * 504 + 320);
    Reg::Max(n0_reducemax_local_reg1, x_local_reg4, x_local_reg5, all);
    Reg::LoadAlign(x_local_reg6, x_local + r * 504 + 384);
    Reg::LoadAlign(x_local_reg7, x_local + r * 504 + 448);
    Reg::Select(n0_reducemax_local_reg3, x_local_reg7, least_float32, part);
    Reg::Max(n0_reducemax_local_reg2, x_local_reg6, n0_reducemax_local_reg3, all);
    Reg::Max(n0_reducemax_local_reg1, n0_reducemax_local_reg1, n0_reducemax_local_reg2, all);
    Reg::Max(n0_reducemax_local_reg0, n0_reducemax_local_reg0, n0_reducemax_local_reg1, all);
    Reg::Reduce<Reg::ReduceType::MAX>(n0_reducemax_local_reg1, n0_reducemax_local_reg0, all);
    Reg::Duplicate(n0_reducemax_local_reg, n0_reducemax_local_reg1, all);
    // from: n0_sub: SubRow (/nodes/0)
    Reg::Sub(n0_sub_local_reg0, x_local_reg0, n0_reducemax_local_reg, all);
    // from: n0_exp: Exp (/nodes/0)
    Reg::Exp(n0_exp_local_reg0, n0_sub_local_reg0, all);
    Reg::Sub(n0_sub_local_reg1, x_local_reg1, n0_reducemax_local_reg, all);
    Reg::Exp(n0_exp_local_reg1, n0_sub_local_reg1, all);
    // from: n0_reducesum: ReduceSum (/nodes/0)
    Reg::Add(n0_reducesum_local_reg0, n0_exp_local_reg0, n0_exp_local_reg1, all);
    Reg::Sub(n0_sub_local_reg2, x_local_reg2, n0_reducemax_local_reg, all);
    Reg::Exp(n0_exp_local_reg2, n0_sub_local_reg2, all);
    Reg::Sub(n0_sub_local_reg3, x_local_reg3, n0_reducemax_local_reg, all);
    Reg::Exp(n0_exp_local_reg3, n0_sub_local_reg3, all);
    Reg::Add(n0_reducesum_local_reg1, n0_exp_local_reg2, n0_exp_local_reg3, all);
    Reg::Add(n0_reducesum_local_reg0, n0_reducesum_local_reg0, n0_reducesum_local_reg1, all);
    Reg::Sub(n0_sub_local_reg4, x_local_reg4, n0_reducemax_local_reg, all);
    Reg::Exp(n0_exp_local_reg4, n0_sub_local_reg4, all);
    Reg::Sub(n0_sub_local_reg5, x_local_reg5, n0_reducemax_local_reg, all);
    Reg::Exp(n0_exp_local_reg5, n0_sub_local_reg5, all);
    Reg::Add(n0_reducesum_local_reg1, n0_exp_local_reg4, n0_exp_local_reg5, all);
    Reg::Sub(n0_sub_local_reg6, x_local_reg6, n0_reducemax_local_reg, all);
    Reg::Exp(n0_exp_local_reg6, n0_sub_local_reg6, all);
    Reg::Sub(n0_sub_local_reg7, x_local_reg7, n0_reducemax_local_reg, row);
    Reg::Exp(n0_exp_local_reg7, n0_sub_local_reg7, row);
    Reg::Select(n0_reducesum_local_reg3, n0_exp_local_reg7, zero_float32, part);
    Reg::Add(n0_reducesum_local_reg2, n0_exp_local_reg6, n0_reducesum_local_reg3, all);
    Reg::Add(n0_reducesum_local_reg1, n0_reducesum_local_reg1, n0_reducesum_local_reg2, all);
    Reg::Add(n0_reducesum_local_reg0, n0_reducesum_local_reg0, n0_reducesum_local_reg1, all);
    Reg::Reduce<Reg::ReduceType::SUM>(n0_reducesum_local_reg1, n0_reducesum_local_reg0, all);
    Reg::Duplicate(n0_reducesum_local_reg, n0_reducesum_local_reg1, all);
    // from: n0_ln: Ln (/nodes/0)
    Reg::Ln(n0_ln_local_reg, n0_reducesum_local_reg, all);
    // from: n0: SubRow (/nodes/0)
    Reg::Sub(n0_local_reg0, n0_sub_local_reg0, n0_ln_local_reg, all);
    Reg::LoadAlign<int32_t, Reg::LoadDist::DIST_BRC_B32>(label_local_reg, label_local + r);
    Reg::LoadAlign(broadcast_2_local_reg0, broadcast_2_local + r * 504);
    // from: n2: Compare (/nodes/2)
    Reg::Compare<int32_t, CMPMODE::EQ>(n2_local_reg0, broadcast_2_local_reg0, label_local_reg, all);
    // from: n3: SelectMask (/nodes/3)
    Reg::Select(n3_local_reg0, n0_local_reg0, n3_local_other, n2_local_reg0);
    Reg::Sub(n0_local_reg1, n0_sub_local_reg1, n0_ln_local_reg, all);
    Reg::LoadAlign(broadcast_2_local_reg1, broadcast_2_local + r * 504 + 64);
    Reg::Compare<int32_t, CMPMODE::EQ>(n2_local_reg1, broadcast_2_local_reg1, label_local_reg, all);
    Reg::Select(n3_local_reg1, n0_local_reg1, n3_local_other, n2_local_reg1);
    // from: n4: ReduceSum (/nodes/4)
    Reg::Add(n4_local_reg0, n3_local_reg0, n3_local_reg1, all);
    Reg::Sub(n0_local_reg2, n0_sub_local_reg2, n0_ln_local_reg, all);
    Reg::LoadAlign(broadcast_2_local_reg2, broadcast_2_local + r * 504 + 128);
    Reg::Compare<int32_t, CMPMODE::EQ>(n2_local_reg2, broadcast_2_local_reg2, label_local_reg, all);
    Reg::Select(n3_local_reg2, n0_local_reg2, n3_local_other, n2_local_reg2);
    Reg::Sub(n0_local_reg3, n0_sub_local_reg3, n0_ln_local_reg, all);
    Reg::LoadAlign(broadcast_2_local_reg3, broadcast_2_local + r * 504 + 192);
    Reg::Compare<int32_t, CMPMODE::EQ>(n2_local_reg3, broadcast_2_local_reg3, label_local_reg, all);
    Reg::Select(n3_local_reg3, n0_local_reg3, n3_local_other, n2_local_reg3);
    Reg::Add(n4_local_reg1, n3_local_reg2, n3_local_reg3, all);
    Reg::Add(n4_local_reg0, n4_local_reg0, n4_local_reg1, all);
    Reg::Sub(n0_local_reg4, n0_sub_local_reg4, n0_ln_local_reg, all);
    Reg::LoadAlign(broadcast_2_local_reg4, broadcast_2_local + r * 504 + 256);
    Reg::Compare<int32_t, CMPMODE::EQ>(n2_local_reg4, broadcast_2_local_reg4, label_local_reg, all);
    Reg::Select(n3_local_reg4, n0_local_reg4, n3_local_other, n2_local_reg4);
    Reg::Sub(n0_local_reg5, n0_sub_local_reg5, n0_ln_local_reg, all);
    Reg::LoadAlign(broadcast_2_local_reg5, broadcast_2_local + r * 504 + 320);
    Reg::Compare<int32_t, CMPMODE::EQ>(n2_local_reg5, broadcast_2_local_reg5, label_local_reg, all);
    Reg::Select(n3_local_reg5, n0_local_reg5, n3_local_other, n2_local_reg5);
    Reg::Add(n4_local_reg1, n3_local_reg4, n3_local_reg5, all);
    Reg::Sub(n0_local_reg6, n0_sub_local_reg6, n0_ln_local_reg, all);
    Reg::LoadAlign(broadcast_2_local_reg6, broadcast_2_local + r * 504 + 384);
    Reg::Compare<int32_t, CMPMODE::EQ>(n2_local_reg6, broadcast_2_local_reg6, label_local_reg, all);
    Reg::Select(n3_local_reg6, n0_local_reg6, n3_local_other, n2_local_reg6);
    Reg::Sub(n0_local_reg7, n0_sub_local_reg7, n0_ln_local_reg, row);
    Reg::LoadAlign(broadcast_2_local_reg7, broadcast_2_local + r * 504 + 448);
    Reg::Compare<int32_t, CMPMODE::EQ>(n2_local_reg7, broadcast_2_local_reg7, label_local_reg, row);
    Reg::Select(n3_local_reg7, n0_local_reg7, n3_local_other, n2_local_reg7);
    Reg::Select(n4_local_reg3, n3_local_reg7, zero_float32, part);
    Reg::Add(n4_local_reg2, n3_local_reg6, n4_local_reg3, all);
    Reg::Add(n4_local_reg1, n4_local_reg1, n4_local_reg2, all);
    Reg::Add(n4_local_reg0, n4_local_reg0, n4_local_reg1, all);
    Reg::Reduce<Reg::ReduceType::SUM>(n4_local_reg1, n4_local_reg0, all);
    Reg::Duplicate(n4_local_reg, n4_local_reg1, all);
    // from: n5: Muls (/nodes/5)
    Reg::Muls(y_local_reg, n4_local_reg, -1.0f, all);
    Reg::StoreAlign<float, Reg::StoreDist::DIST_FIRST_ELEMENT_B32>(y_local + r, y_local_reg, all);
  }
}

}  // namespace autofuse

// r_0_reduce_all_0_nil_0_nil: z0 in tiles of z0t_size, z0T in blocks of z0Tb_size per core.
inline __aicore__ void r_0_reduce_all_0_nil_0_nil(
    GM_ADDR x,
    GM_ADDR label,
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
  GlobalTensor<float> x_gm;
  x_gm.SetGlobalBuffer((__gm__ float*)x);
  GlobalTensor<int32_t> label_gm;
  label_gm.SetGlobalBuffer((__gm__ int32_t*)label);
  GlobalTensor<float> y_gm;
  y_gm.SetGlobalBuffer((__gm__ float*)y);
  TPipe tpipe;
  TQue<TPosition::VECIN, 2> x_queue;
  TQue<TPosition::VECIN, 2> label_queue;
  TQue<TPosition::VECOUT, 2> y_queue;
  TBuf<TPosition::VECCALC> shared0_buf;
  TBuf<TPosition::VECCALC> broadcast_2_buf;
  TBuf<TPosition::VECCALC> shared1_buf;
  TBuf<TPosition::VECCALC> shared2_buf;
  TBuf<TPosition::VECCALC> shared3_buf;
  const int64_t x_queue_bytes = 2016 * z0t_size;
  const int64_t slot0_bytes = 32 * autofuse::CeilDiv(4 * z0t_size, 32);
  const int64_t slot1_bytes = 256 * autofuse::CeilDiv(2016 * z0t_size, 256);
  const int64_t shared1_buf_bytes = 288 * z0t_size;
  tpipe.InitBuffer(x_queue, 2, static_cast<uint32_t>(x_queue_bytes));
  tpipe.InitBuffer(label_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(y_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared0_buf, static_cast<uint32_t>(slot1_bytes));
  tpipe.InitBuffer(broadcast_2_buf, static_cast<uint32_t>(slot1_bytes));
  tpipe.InitBuffer(shared1_buf, static_cast<uint32_t>(shared1_buf_bytes));
  tpipe.InitBuffer(shared2_buf, static_cast<uint32_t>(slot1_bytes));
  tpipe.InitBuffer(shared3_buf, static_cast<uint32_t>(slot0_bytes));
  LocalTensor<int32_t> iota_0_local = shared0_buf.Get<int32_t>();
  LocalTensor<int32_t> broadcast_2_local = broadcast_2_buf.Get<int32_t>();
  // from: iota_0: Iota (/nodes/1)
  Arange(iota_0_local[0], static_cast<int32_t>(0), static_cast<int32_t>(1), 500);
  // from: broadcast_2: Broadcast (/nodes/2)
  PipeBarrier<PIPE_V>();
  autofuse::BroadcastOuter(broadcast_2_local[0], iota_0_local[0], 1, z0t_size, 504);
  PipeBarrier<PIPE_V>();
  for (int64_t z0Tb = 0; z0Tb < z0Tb_loop_size; z0Tb++) {
    const int64_t z0T = z0Tb + z0TB * z0Tb_size;
    const int64_t z0t_actual_size = autofuse::Min(6400 - z0T * z0t_size, z0t_size);
    const DataCopyExtParams block0{static_cast<uint16_t>(z0t_actual_size), 2000, 0, 0, 0};
    const int64_t offset0 = 500 * z0T * z0t_size;
    const DataCopyExtParams block1{1, static_cast<uint32_t>(4 * z0t_actual_size), 0, 0, 0};
    const int64_t offset1 = z0T * z0t_size;
    // from: gather_0: Load (/inputs/0)
    LocalTensor<float> x_local = x_queue.AllocTensor<float>();
    DataCopyPad(x_local[0], x_gm[offset0], block0, autofuse::NoPad<float>());
    x_queue.EnQue<float>(x_local);
    x_local = x_queue.DeQue<float>();
    // from: gather_1: Load (/inputs/1)
    LocalTensor<int32_t> label_local = label_queue.AllocTensor<int32_t>();
    DataCopyPad(label_local[0], label_gm[offset1], block1, autofuse::NoPad<int32_t>());
    label_queue.EnQue<int32_t>(label_local);
    label_local = label_queue.DeQue<int32_t>();
    LocalTensor<float> y_local = y_queue.AllocTensor<float>();
    // from: n5: Muls (/nodes/5)
    autofuse::r_0_reduce_all_0_nil_0_nil_vf0(
        (__ubuf__ float*)x_local.GetPhyAddr(),
        (__ubuf__ int32_t*)label_local.GetPhyAddr(),
        (__ubuf__ int32_t*)broadcast_2_local.GetPhyAddr(),
        (__ubuf__ float*)y_local.GetPhyAddr(),
        static_cast<uint16_t>(z0t_actual_size));
    x_queue.FreeTensor(x_local);
    label_queue.FreeTensor(label_local);
    // from: store: Store (/outputs/0)
    y_queue.EnQue<float>(y_local);
    y_local = y_queue.DeQue<float>();
    DataCopyPad(y_gm[offset1], y_local[0], block1);
    y_queue.FreeTensor(y_local);
  }
}
