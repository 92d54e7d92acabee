namespace autofuse {

__simd_vf__ __no_simd_vf_fusion__ inline void r_0_reduce_all_0_nil_0_nil_vf0(
    __ubuf__ float* x_local,
    __ubuf__ float* y_local,
    uint16_t rows) {
  Reg::RegTensor<float> least_float32, zero_float32, x_local_reg0, x_local_reg1,
    n0_reducemax_local_reg0, x_local_reg2, x_local_reg3, n0_reducemax_local_reg1, x_local_reg4,
    x_local_reg5, x_local_reg6, x_local_reg7, n0_reducemax_local_reg3, n0_reducemax_local_reg2,
    n0_reducemax_local_reg, n0_sub_local_reg0, n0_exp_local_reg0, n0_sub_local_reg1,
    n0_exp_local_reg1, n0_reducesum_local_reg0, n0_sub_local_reg2, n0_exp_local_reg2,
    n0_sub_local_reg3, n0_exp_local_reg3, n0_reducesum_local_reg1, n0_sub_local_reg4,
    n0_exp_local_reg4, n0_sub_local_reg5, n0_exp_local_reg5, n0_sub_local_reg6, n0_exp_local_reg6,
    n0_sub_local_reg7, n0_exp_local_reg7, n0_reducesum_local_reg3, n0_reducesum_local_reg2,
    n0_reducesum_local_reg, y_local_reg0, y_local_reg1, y_local_reg2, y_local_reg3, y_local_reg4,
    y_local_reg5, y_local_reg6, y_local_reg7;
  Reg::MaskReg all, row, part;
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
    // from: n0: DivRow (/nodes/0)
    Reg::Div(y_local_reg0, n0_exp_local_reg0, n0_reducesum_local_reg, all);
    Reg::StoreAlign(y_local + r * 504, y_local_reg0, all);
    Reg::Div(y_local_reg1, n0_exp_local_reg1, n0_reducesum_local_reg, all);
    Reg::StoreAlign(y_local + r * 504 + 64, y_local_reg1, all);
    Reg::Div(y_local_reg2, n0_exp_local_reg2, n0_reducesum_local_reg, all);
    Reg::StoreAlign(y_local + r * 504 + 128, y_local_reg2, all);
    Reg::Div(y_local_reg3, n0_exp_local_reg3, n0_reducesum_local_reg, all);
    Reg::StoreAlign(y_local + r * 504 + 192, y_local_reg3, all);
    Reg::Div(y_local_reg4, n0_exp_local_reg4, n0_reducesum_local_reg, all);
    Reg::StoreAlign(y_local + r * 504 + 256, y_local_reg4, all);
    Reg::Div(y_local_reg5, n0_exp_local_reg5, n0_reducesum_local_reg, all);
    Reg::StoreAlign(y_local + r * 504 + 320, y_local_reg5, all);
    Reg::Div(y_local_reg6, n0_exp_local_reg6, n0_reducesum_local_reg, all);
    Reg::StoreAlign(y_local + r * 504 + 384, y_local_reg6, all);
    Reg::Div(y_local_reg7, n0_exp_local_reg7, n0_reducesum_local_reg, row);
    Reg::StoreAlign(y_local + r * 504 + 448, y_local_reg7, row);
  }
}

}  // namespace autofuse

// r_0_reduce_all_0_nil_0_nil: z0 in tiles of z0t_size, z0T in blocks of z0Tb_size per core.
inline __aicore__ void r_0_reduce_all_0_nil_0_nil(
    GM_ADDR x,
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
  GlobalTensor<float> y_gm;
  y_gm.SetGlobalBuffer((__gm__ float*)y);
  TPipe tpipe;
  TQue<TPosition::VECIN, 2> x_queue;
  TQue<TPosition::VECOUT, 2> y_queue;
  TBuf<TPosition::VECCALC> shared0_buf;
  TBuf<TPosition::VECCALC> shared1_buf;
  TBuf<TPosition::VECCALC> shared2_buf;
  const int64_t slot0_bytes = 2016 * z0t_size;
  const int64_t shared0_buf_bytes = 288 * z0t_size;
  const int64_t shared1_buf_bytes = 32 * autofuse::CeilDiv(4 * z0t_size, 32);
  tpipe.InitBuffer(x_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(y_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared0_buf, static_cast<uint32_t>(shared0_buf_bytes));
  tpipe.InitBuffer(shared1_buf, static_cast<uint32_t>(shared1_buf_bytes));
  tpipe.InitBuffer(shared2_buf, static_cast<uint32_t>(slot0_bytes));
  for (int64_t z0Tb = 0; z0Tb < z0Tb_loop_size; z0Tb++) {
    const int64_t z0T = z0Tb + z0TB * z0Tb_size;
    const int64_t z0t_actual_size = autofuse::Min(6400 - z0T * z0t_size, z0t_size);
    const DataCopyExtParams block0{static_cast<uint16_t>(z0t_actual_size), 2000, 0, 0, 0};
    const int64_t offset0 = 500 * z0T * z0t_size;
    // from: gather_0: Load (/inputs/0)
    LocalTensor<float> x_local = x_queue.AllocTensor<float>();
    DataCopyPad(x_local[0], x_gm[offset0], block0, autofuse::NoPad<float>());
    x_queue.EnQue<float>(x_local);
    x_local = x_queue.DeQue<float>();
    LocalTensor<float> y_local = y_queue.AllocTensor<float>();
    // from: n0: DivRow (/nodes/0)
    autofuse::r_0_reduce_all_0_nil_0_nil_vf0(
        (__ubuf__ float*)x_local.GetPhyAddr(),
        (__ubuf__ float*)y_local.GetPhyAddr(),
        static_cast<uint16_t>(z0t_actual_size));
    x_queue.FreeTensor(x_local);
    // from: store: Store (/outputs/0)
    y_queue.EnQue<float>(y_local);
    y_local = y_queue.DeQue<float>();
    DataCopyPad(y_gm[offset0], y_local[0], block0);
    y_queue.FreeTensor(y_local);
  }
}
