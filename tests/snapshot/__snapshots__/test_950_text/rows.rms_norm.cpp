namespace autofuse {

constexpr Reg::CastTrait r_0_reduce_all_0_nil_0_nil_vf0_cast0{
    Reg::RegLayout::ZERO, Reg::SatMode::NO_SAT, Reg::MaskMergeMode::ZEROING, RoundMode::CAST_TRUNC};
constexpr Reg::CastTrait r_0_reduce_all_0_nil_0_nil_vf0_cast1{
    Reg::RegLayout::ZERO, Reg::SatMode::SAT, Reg::MaskMergeMode::ZEROING, RoundMode::CAST_TRUNC};
__simd_vf__ __no_simd_vf_fusion__ inline void r_0_reduce_all_0_nil_0_nil_vf0(
    __ubuf__ float* x_local,
    __ubuf__ float* broadcast_1_local,
    __ubuf__ float* n12_local,
    __ubuf__ int8_t* y_local,
    __ubuf__ float* scale_local,
    uint16_t rows) {
  Reg::RegTensor<float> n4_1_local_reg, n2_local_reg, zero_float32, least_float32, x_local_reg0,
    n1_local_reg0, x_local_reg1, n1_local_reg1, n2_reducesum_local_reg0, x_local_reg2,
    n1_local_reg2, x_local_reg3, n1_local_reg3, n2_reducesum_local_reg1, x_local_reg4,
    n1_local_reg4, x_local_reg5, n1_local_reg5, x_local_reg6, n1_local_reg6, x_local_reg7,
    n1_local_reg7, n2_reducesum_local_reg3, n2_reducesum_local_reg2, n2_reducesum_local_reg,
    n2_1_local_reg, n3_local_reg, n4_local_reg, n4_2_local_reg, n5_local_reg0,
    broadcast_1_local_reg0, n7_local_reg0, n8_local_reg0, n5_local_reg1, broadcast_1_local_reg1,
    n7_local_reg1, n8_local_reg1, n9_local_reg0, n5_local_reg2, broadcast_1_local_reg2,
    n7_local_reg2, n8_local_reg2, n5_local_reg3, broadcast_1_local_reg3, n7_local_reg3,
    n8_local_reg3, n9_local_reg1, n5_local_reg4, broadcast_1_local_reg4, n7_local_reg4,
    n8_local_reg4, n5_local_reg5, broadcast_1_local_reg5, n7_local_reg5, n8_local_reg5,
    n5_local_reg6, broadcast_1_local_reg6, n7_local_reg6, n8_local_reg6, n5_local_reg7,
    broadcast_1_local_reg7, n7_local_reg7, n8_local_reg7, n9_local_reg3, n9_local_reg2,
    n9_local_reg, n10_local_reg, n12_local_reg, n12_1_local_reg, scale_local_reg, n13_local_reg0,
    n14_local_reg0, n13_local_reg1, n14_local_reg1, n13_local_reg2, n14_local_reg2, n13_local_reg3,
    n14_local_reg3, n13_local_reg4, n14_local_reg4, n13_local_reg5, n14_local_reg5, n13_local_reg6,
    n14_local_reg6, n13_local_reg7, n14_local_reg7;
  Reg::RegTensor<half> n14_1_local_reg0, n14_1_local_reg1, n14_1_local_reg2, n14_1_local_reg3,
    n14_1_local_reg4, n14_1_local_reg5, n14_1_local_reg6, n14_1_local_reg7;
  Reg::RegTensor<int8_t> y_local_reg0, y_local_reg1, y_local_reg2, y_local_reg3, y_local_reg4,
    y_local_reg5, y_local_reg6, y_local_reg7;
  Reg::MaskReg all, part;
  Reg::Duplicate(n4_1_local_reg, 1.0f);
  Reg::Duplicate(n2_local_reg, 5e+02f);
  Reg::Duplicate(zero_float32, 0.0f);
  Reg::Duplicate(least_float32, -autofuse::kInfinity);
  all = Reg::CreateMask<float>();
  uint32_t part_lanes = 52;
  part = Reg::UpdateMask<float>(part_lanes);
  for (uint16_t r = 0; r < rows; ++r) {
    Reg::LoadAlign(x_local_reg0, x_local + r * 512);
    // from: n1: Mul (/nodes/1)
    Reg::Mul(n1_local_reg0, x_local_reg0, x_local_reg0, all);
    Reg::LoadAlign(x_local_reg1, x_local + r * 512 + 64);
    Reg::Mul(n1_local_reg1, x_local_reg1, x_local_reg1, all);
    // from: n2_reducesum: ReduceSum (/nodes/2)
    Reg::Add(n2_reducesum_local_reg0, n1_local_reg0, n1_local_reg1, all);
    Reg::LoadAlign(x_local_reg2, x_local + r * 512 + 128);
    Reg::Mul(n1_local_reg2, x_local_reg2, x_local_reg2, all);
    Reg::LoadAlign(x_local_reg3, x_local + r * 512 + 192);
    Reg::Mul(n1_local_reg3, x_local_reg3, x_local_reg3, all);
    Reg::Add(n2_reducesum_local_reg1, n1_local_reg2, n1_local_reg3, all);
    Reg::Add(n2_reducesum_local_reg0, n2_reducesum_local_reg0, n2_reducesum_local_reg1, all);
    Reg::LoadAlign(x_local_reg4, x_local + r * 512 + 256);
    Reg::Mul(n1_local_reg4, x_local_reg4, x_local_reg4, all);
    Reg::LoadAlign(x_local_reg5, x_local + r * 512 + 320);
    Reg::Mul(n1_local_reg5, x_local_reg5, x_local_reg5, all);
    Reg::Add(n2_reducesum_local_reg1, n1_local_reg4, n1_local_reg5, all);
    Reg::LoadAlign(x_local_reg6, x_local + r * 512 + 384);
    Reg::Mul(n1_local_reg6, x_local_reg6, x_local_reg6, all);
    Reg::LoadAlign(x_local_reg7, x_local + r * 512 + 448);
    Reg::Mul(n1_local_reg7, x_local_reg7, x_local_reg7, all);
    Reg::Select(n2_reducesum_local_reg3, n1_local_reg7, zero_float32, part);
    Reg::Add(n2_reducesum_local_reg2, n1_local_reg6, n2_reducesum_local_reg3, all);
    Reg::Add(n2_reducesum_local_reg1, n2_reducesum_local_reg1, n2_reducesum_local_reg2, all);
    Reg::Add(n2_reducesum_local_reg0, n2_reducesum_local_reg0, n2_reducesum_local_reg1, all);
    Reg::Reduce<Reg::ReduceType::SUM>(n2_reducesum_local_reg1, n2_reducesum_local_reg0, all);
    Reg::Duplicate(n2_reducesum_local_reg, n2_reducesum_local_reg1, all);
    // from: n2_1: Div (/nodes/2)
    Reg::Div(n2_1_local_reg, n2_reducesum_local_reg, n2_local_reg, all);
    // from: n3: Adds (/nodes/3)
    Reg::Adds(n3_local_reg, n2_1_local_reg, 1e-05f, all);
    // from: n4: Sqrt (/nodes/4)
    Reg::Sqrt(n4_local_reg, n3_local_reg, all);
    // from: n4_2: Div (/nodes/4)
    Reg::Div(n4_2_local_reg, n4_1_local_reg, n4_local_reg, all);
    // from: n5: MulRow (/nodes/5)
    Reg::Mul(n5_local_reg0, x_local_reg0, n4_2_local_reg, all);
    Reg::LoadAlign(broadcast_1_local_reg0, broadcast_1_local + r * 512);
    // from: n7: Mul (/nodes/7)
    Reg::Mul(n7_local_reg0, n5_local_reg0, broadcast_1_local_reg0, all);
    // from: n8: Abs (/nodes/8)
    Reg::Abs(n8_local_reg0, n7_local_reg0, all);
    Reg::Mul(n5_local_reg1, x_local_reg1, n4_2_local_reg, all);
    Reg::LoadAlign(broadcast_1_local_reg1, broadcast_1_local + r * 512 + 64);
    Reg::Mul(n7_local_reg1, n5_local_reg1, broadcast_1_local_reg1, all);
    Reg::Abs(n8_local_reg1, n7_local_reg1, all);
    // from: n9: ReduceMax (/nodes/9)
    Reg::Max(n9_local_reg0, n8_local_reg0, n8_local_reg1, all);
    Reg::Mul(n5_local_reg2, x_local_reg2, n4_2_local_reg, all);
    Reg::LoadAlign(broadcast_1_local_reg2, broadcast_1_local + r * 512 + 128);
    Reg::Mul(n7_local_reg2, n5_local_reg2, broadcast_1_local_reg2, all);
    Reg::Abs(n8_local_reg2, n7_local_reg2, all);
    Reg::Mul(n5_local_reg3, x_local_reg3, n4_2_local_reg, all);
    Reg::LoadAlign(broadcast_1_local_reg3, broadcast_1_local + r * 512 + 192);
    Reg::Mul(n7_local_reg3, n5_local_reg3, broadcast_1_local_reg3, all);
    Reg::Abs(n8_local_reg3, n7_local_reg3, all);
    Reg::Max(n9_local_reg1, n8_local_reg2, n8_local_reg3, all);
    Reg::Max(n9_local_reg0, n9_local_reg0, n9_local_reg1, all);
    Reg::Mul(n5_local_reg4, x_local_reg4, n4_2_local_reg, all);
    Reg::LoadAlign(broadcast_1_local_reg4, broadcast_1_local + r * 512 + 256);
    Reg::Mul(n7_local_reg4, n5_local_reg4, broadcast_1_local_reg4, all);
    Reg::Abs(n8_local_reg4, n7_local_reg4, all);
    Reg::Mul(n5_local_reg5, x_local_reg5, n4_2_local_reg, all);
    Reg::LoadAlign(broadcast_1_local_reg5, broadcast_1_local + r * 512 + 320);
    Reg::Mul(n7_local_reg5, n5_local_reg5, broadcast_1_local_reg5, all);
    Reg::Abs(n8_local_reg5, n7_local_reg5, all);
    Reg::Max(n9_local_reg1, n8_local_reg4, n8_local_reg5, all);
    Reg::Mul(n5_local_reg6, x_local_reg6, n4_2_local_reg, all);
    Reg::LoadAlign(broadcast_1_local_reg6, broadcast_1_local + r * 512 + 384);
    Reg::Mul(n7_local_reg6, n5_local_reg6, broadcast_1_local_reg6, all);
    Reg::Abs(n8_local_reg6, n7_local_reg6, all);
    Reg::Mul(n5_local_reg7, x_local_reg7, n4_2_local_reg, all);
    Reg::LoadAlign(broadcast_1_local_reg7, broadcast_1_local + r * 512 + 448);
    Reg::Mul(n7_local_reg7, n5_local_reg7, broadcast_1_local_reg7, all);
    Reg::Abs(n8_local_reg7, n7_local_reg7, all);
    Reg::Select(n9_local_reg3, n8_local_reg7, least_float32, part);
    Reg::Max(n9_local_reg2, n8_local_reg6, n9_local_reg3, all);
    Reg::Max(n9_local_reg1, n9_local_reg1, n9_local_reg2, all);
    Reg::Max(n9_local_reg0, n9_local_reg0, n9_local_reg1, all);
    Reg::Reduce<Reg::ReduceType::MAX>(n9_local_reg1, n9_local_reg0, all);
    Reg::Duplicate(n9_local_reg, n9_local_reg1, all);
    // from: n10: Maxs (/nodes/10)
    Reg::Maxs(n10_local_reg, n9_local_reg, 1e-10f, all);
    Reg::LoadAlign<float, Reg::LoadDist::DIST_BRC_B32>(n12_local_reg, n12_local + r);
    // from: n12_1: Div (/nodes/12)
    Reg::Div(n12_1_local_reg, n12_local_reg, n10_local_reg, all);
    // from: n11: Div (/nodes/11)
    Reg::Div(scale_local_reg, n10_local_reg, n12_local_reg, all);
    Reg::StoreAlign<float, Reg::StoreDist::DIST_FIRST_ELEMENT_B32>(
        scale_local + r,
        scale_local_reg,
        all);
    // from: n13: MulRow (/nodes/13)
    Reg::Mul(n13_local_reg0, n7_local_reg0, n12_1_local_reg, all);
    // from: n14: Cast (/nodes/14)
    Reg::Truncate<float, RoundMode::CAST_RINT>(n14_local_reg0, n13_local_reg0, all);
    // from: n14_1: Cast (/nodes/14)
    Reg::Cast<half, float, r_0_reduce_all_0_nil_0_nil_vf0_cast0>(n14_1_local_reg0, n14_local_reg0, all);
    // from: n14_2: Cast (/nodes/14)
    Reg::Cast<int8_t, half, r_0_reduce_all_0_nil_0_nil_vf0_cast1>(y_local_reg0, n14_1_local_reg0, all);
    Reg::StoreAlign<int8_t, Reg::StoreDist::DIST_PACK4_B32>(y_local + r * 512, y_local_reg0, all);
    Reg::Mul(n13_local_reg1, n7_local_reg1, n12_1_local_reg, all);
    Reg::Truncate<float, RoundMode::CAST_RINT>(n14_local_reg1, n13_local_reg1, all);
    Reg::Cast<half, float, r_0_reduce_all_0_nil_0_nil_vf0_cast0>(n14_1_local_reg1, n14_local_reg1, all);
    Reg::Cast<int8_t, half, r_0_reduce_all_0_nil_0_nil_vf0_cast1>(y_local_reg1, n14_1_local_reg1, all);
    Reg::StoreAlign<int8_t, Reg::StoreDist::DIST_PACK4_B32>(y_local + r * 512 + 64, y_local_reg1, all);
    Reg::Mul(n13_local_reg2, n7_local_reg2, n12_1_local_reg, all);
    Reg::Truncate<float, RoundMode::CAST_RINT>(n14_local_reg2, n13_local_reg2, all);
    Reg::Cast<half, float, r_0_reduce_all_0_nil_0_nil_vf0_cast0>(n14_1_local_reg2, n14_local_reg2, all);
    Reg::Cast<int8_t, half, r_0_reduce_all_0_nil_0_nil_vf0_cast1>(y_local_reg2, n14_1_local_reg2, all);
    Reg::StoreAlign<int8_t, Reg::StoreDist::DIST_PACK4_B32>(y_local + r * 512 + 128, y_local_reg2, all);
    Reg::Mul(n13_local_reg3, n7_local_reg3, n12_1_local_reg, all);
    Reg::Truncate<float, RoundMode::CAST_RINT>(n14_local_reg3, n13_local_reg3, all);
    Reg::Cast<half, float, r_0_reduce_all_0_nil_0_nil_vf0_cast0>(n14_1_local_reg3, n14_local_reg3, all);
    Reg::Cast<int8_t, half, r_0_reduce_all_0_nil_0_nil_vf0_cast1>(y_local_reg3, n14_1_local_reg3, all);
    Reg::StoreAlign<int8_t, Reg::StoreDist::DIST_PACK4_B32>(y_local + r * 512 + 192, y_local_reg3, all);
    Reg::Mul(n13_local_reg4, n7_local_reg4, n12_1_local_reg, all);
    Reg::Truncate<float, RoundMode::CAST_RINT>(n14_local_reg4, n13_local_reg4, all);
    Reg::Cast<half, float, r_0_reduce_all_0_nil_0_nil_vf0_cast0>(n14_1_local_reg4, n14_local_reg4, all);
    Reg::Cast<int8_t, half, r_0_reduce_all_0_nil_0_nil_vf0_cast1>(y_local_reg4, n14_1_local_reg4, all);
    Reg::StoreAlign<int8_t, Reg::StoreDist::DIST_PACK4_B32>(y_local + r * 512 + 256, y_local_reg4, all);
    Reg::Mul(n13_local_reg5, n7_local_reg5, n12_1_local_reg, all);
    Reg::Truncate<float, RoundMode::CAST_RINT>(n14_local_reg5, n13_local_reg5, all);
    Reg::Cast<half, float, r_0_reduce_all_0_nil_0_nil_vf0_cast0>(n14_1_local_reg5, n14_local_reg5, all);
    Reg::Cast<int8_t, half, r_0_reduce_all_0_nil_0_nil_vf0_cast1>(y_local_reg5, n14_1_local_reg5, all);
    Reg::StoreAlign<int8_t, Reg::StoreDist::DIST_PACK4_B32>(y_local + r * 512 + 320, y_local_reg5, all);
    Reg::Mul(n13_local_reg6, n7_local_reg6, n12_1_local_reg, all);
    Reg::Truncate<float, RoundMode::CAST_RINT>(n14_local_reg6, n13_local_reg6, all);
    Reg::Cast<half, float, r_0_reduce_all_0_nil_0_nil_vf0_cast0>(n14_1_local_reg6, n14_local_reg6, all);
    Reg::Cast<int8_t, half, r_0_reduce_all_0_nil_0_nil_vf0_cast1>(y_local_reg6, n14_1_local_reg6, all);
    Reg::StoreAlign<int8_t, Reg::StoreDist::DIST_PACK4_B32>(y_local + r * 512 + 384, y_local_reg6, all);
    Reg::Mul(n13_local_reg7, n7_local_reg7, n12_1_local_reg, all);
    Reg::Truncate<float, RoundMode::CAST_RINT>(n14_local_reg7, n13_local_reg7, all);
    Reg::Cast<half, float, r_0_reduce_all_0_nil_0_nil_vf0_cast0>(n14_1_local_reg7, n14_local_reg7, all);
    Reg::Cast<int8_t, half, r_0_reduce_all_0_nil_0_nil_vf0_cast1>(y_local_reg7, n14_1_local_reg7, all);
    Reg::StoreAlign<int8_t, Reg::StoreDist::DIST_PACK4_B32>(y_local + r * 512 + 448, y_local_reg7, all);
  }
}

}  // namespace autofuse

// r_0_reduce_all_0_nil_0_nil: z0 in tiles of z0t_size, z0T in blocks of z0Tb_size per core.
inline __aicore__ void r_0_reduce_all_0_nil_0_nil(
    GM_ADDR x,
    GM_ADDR v_gamma,
    GM_ADDR y,
    GM_ADDR scale,
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
  GlobalTensor<float> x_gm;
  x_gm.SetGlobalBuffer((__gm__ float*)x);
  GlobalTensor<int8_t> y_gm;
  y_gm.SetGlobalBuffer((__gm__ int8_t*)y);
  GlobalTensor<float> scale_gm;
  scale_gm.SetGlobalBuffer((__gm__ float*)scale);
  TPipe tpipe;
  TQue<TPosition::VECIN, 2> x_queue;
  TQue<TPosition::VECOUT, 2> y_queue;
  TQue<TPosition::VECOUT, 2> scale_queue;
  TBuf<TPosition::VECCALC> n2_buf;
  TBuf<TPosition::VECCALC> n4_1_buf;
  TBuf<TPosition::VECIN> shared0_buf;
  TBuf<TPosition::VECCALC> broadcast_1_buf;
  TBuf<TPosition::VECCALC> shared1_buf;
  TBuf<TPosition::VECCALC> shared2_buf;
  TBuf<TPosition::VECCALC> shared3_buf;
  TBuf<TPosition::VECCALC> shared4_buf;
  const int64_t slot0_bytes = 2048 * z0t_size;
  const int64_t y_queue_bytes = 512 * z0t_size;
  const int64_t slot1_bytes = 32 * autofuse::CeilDiv(4 * z0t_size, 32);
  const int64_t shared0_buf_bytes = autofuse::Max(2048, 32 * autofuse::CeilDiv(4 * z0t_size, 32));
  const int64_t shared3_buf_bytes = 288 * z0t_size;
  tpipe.InitBuffer(x_queue, 2, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(y_queue, 2, static_cast<uint32_t>(y_queue_bytes));
  tpipe.InitBuffer(scale_queue, 2, static_cast<uint32_t>(slot1_bytes));
  tpipe.InitBuffer(n2_buf, static_cast<uint32_t>(slot1_bytes));
  tpipe.InitBuffer(n4_1_buf, static_cast<uint32_t>(slot1_bytes));
  tpipe.InitBuffer(shared0_buf, static_cast<uint32_t>(shared0_buf_bytes));
  tpipe.InitBuffer(broadcast_1_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared1_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared2_buf, static_cast<uint32_t>(slot0_bytes));
  tpipe.InitBuffer(shared3_buf, static_cast<uint32_t>(shared3_buf_bytes));
  tpipe.InitBuffer(shared4_buf, static_cast<uint32_t>(slot1_bytes));
  LocalTensor<float> v_gamma_local = shared0_buf.Get<float>();
  LocalTensor<float> broadcast_1_local = broadcast_1_buf.Get<float>();
  LocalTensor<float> n12_local = shared0_buf.Get<float>();
  const DataCopyExtParams block0{1, 2000, 0, 0, 0};
  // from: gather_1: Load (/inputs/1)
  DataCopyPad(v_gamma_local[0], v_gamma_gm[0], block0, autofuse::NoPad<float>());
  // from: broadcast_1: Broadcast (/nodes/7)
  {
    const auto id = tpipe.AllocEventID<HardEvent::MTE2_V>();
    SetFlag<HardEvent::MTE2_V>(id);
    WaitFlag<HardEvent::MTE2_V>(id);
    // Keep the event id: other pipes may not have reached the wait yet.
  }
  autofuse::BroadcastOuter(broadcast_1_local[0], v_gamma_local[0], 1, z0t_size, 512);
  // from: n12: Duplicate (/nodes/12)
  PipeBarrier<PIPE_V>();
  Duplicate(n12_local[0], 127.0f, z0t_size);
  PipeBarrier<PIPE_V>();
  for (int64_t z0Tb = 0; z0Tb < z0Tb_loop_size; z0Tb++) {
    const int64_t z0T = z0Tb + z0TB * z0Tb_size;
    const int64_t z0t_actual_size = autofuse::Min(6400 - z0T * z0t_size, z0t_size);
    const DataCopyExtParams block1{static_cast<uint16_t>(z0t_actual_size), 2000, 0, 1, 0};
    const int64_t offset0 = 500 * z0T * z0t_size;
    const DataCopyExtParams block2{static_cast<uint16_t>(z0t_actual_size), 500, 0, 0, 0};
    const DataCopyExtParams block3{1, static_cast<uint32_t>(4 * z0t_actual_size), 0, 0, 0};
    const int64_t offset1 = z0T * z0t_size;
    // from: gather_0: Load (/inputs/0)
    LocalTensor<float> x_local = x_queue.AllocTensor<float>();
    DataCopyPad(x_local[0], x_gm[offset0], block1, autofuse::NoPad<float>());
    x_queue.EnQue<float>(x_local);
    x_local = x_queue.DeQue<float>();
    LocalTensor<int8_t> y_local = y_queue.AllocTensor<int8_t>();
    LocalTensor<float> scale_local = scale_queue.AllocTensor<float>();
    // from: n11: Div (/nodes/11)
    autofuse::r_0_reduce_all_0_nil_0_nil_vf0(
        (__ubuf__ float*)x_local.GetPhyAddr(),
        (__ubuf__ float*)broadcast_1_local.GetPhyAddr(),
        (__ubuf__ float*)n12_local.GetPhyAddr(),
        (__ubuf__ int8_t*)y_local.GetPhyAddr(),
        (__ubuf__ float*)scale_local.GetPhyAddr(),
        static_cast<uint16_t>(z0t_actual_size));
    x_queue.FreeTensor(x_local);
    // from: store: Store (/outputs/0)
    y_queue.EnQue<int8_t>(y_local);
    y_local = y_queue.DeQue<int8_t>();
    DataCopyPad(y_gm[offset0], y_local[0], block2);
    y_queue.FreeTensor(y_local);
    // from: store_1: Store (/outputs/1)
    scale_queue.EnQue<float>(scale_local);
    scale_local = scale_queue.DeQue<float>();
    DataCopyPad(scale_gm[offset1], scale_local[0], block3);
    scale_queue.FreeTensor(scale_local);
  }
}
