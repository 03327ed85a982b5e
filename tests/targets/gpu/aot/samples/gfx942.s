	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
mm:
.Lfunc_begin0:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	s_load_dwordx8 s[4:11], s[0:1], 0x8
	s_load_dwordx2 s[12:13], s[0:1], 0x28
	s_waitcnt lgkmcnt(0)
	s_branch .LBB0_0
.LBB0_0:
	s_lshl_b32 s9, s14, 5
	v_lshrrev_b32_e32 v1, 2, v0
	v_lshlrev_b32_e32 v2, 3, v0
	v_or_b32_e32 v1, s9, v1
	v_and_b32_e32 v10, 24, v2
	v_mul_lo_u32 v2, s8, v1
	v_ashrrev_i32_e32 v3, 31, v2
	s_cmp_gt_i32 s8, 0
	v_lshl_add_u64 v[20:21], v[2:3], 1, s[2:3]
	s_cselect_b64 s[10:11], -1, 0
	s_cmp_lt_i32 s8, 1
	v_mov_b32_e32 v23, 0
	v_lshlrev_b32_e32 v22, 1, v10
	s_cbranch_scc1 .LBB0_2
	v_lshl_add_u64 v[2:3], v[20:21], 0, v[22:23]
	global_load_dwordx4 v[2:5], v[2:3], off
	s_branch .LBB0_3
.LBB0_2:
	v_mov_b32_e32 v2, 0
	v_mov_b32_e32 v3, v2
	v_mov_b32_e32 v4, v2
	v_mov_b32_e32 v5, v2
.LBB0_3:
	v_or_b32_e32 v1, 16, v1
	v_mul_lo_u32 v6, s8, v1
	v_ashrrev_i32_e32 v7, 31, v6
	v_lshl_add_u64 v[6:7], v[6:7], 1, s[2:3]
	v_cndmask_b32_e64 v1, 0, 1, s[10:11]
	v_cmp_ne_u32_e64 s[0:1], 1, v1
	s_andn2_b64 vcc, exec, s[10:11]
	v_lshl_add_u64 v[18:19], v[6:7], 0, v[22:23]
	s_cbranch_vccnz .LBB0_5
	global_load_dwordx4 v[6:9], v[18:19], off
	s_branch .LBB0_6
.LBB0_5:
	v_mov_b32_e32 v6, 0
	v_mov_b32_e32 v7, v6
	v_mov_b32_e32 v8, v6
	v_mov_b32_e32 v9, v6
.LBB0_6:
	s_lshl_b32 s2, s15, 5
	v_and_b32_e32 v1, 60, v0
	v_or_b32_e32 v24, s2, v10
	v_ashrrev_i32_e32 v25, 31, v24
	v_mov_b32_e32 v27, 0
	s_and_b64 vcc, exec, s[0:1]
	v_lshlrev_b32_e32 v26, 10, v1
	s_cbranch_vccnz .LBB0_9
	v_lshl_add_u64 v[10:11], s[4:5], 0, v[26:27]
	v_lshl_add_u64 v[10:11], v[24:25], 1, v[10:11]
	global_load_dwordx4 v[10:13], v[10:11], off
	s_waitcnt vmcnt(0)
	v_mov_b32_e32 v27, v10
	s_and_b64 vcc, exec, s[0:1]
	v_mov_b32_e32 v29, 0
	s_cbranch_vccnz .LBB0_10
.LBB0_8:
	v_mov_b32_e32 v10, 0x800
	v_lshl_or_b32 v28, v1, 10, v10
	v_lshl_add_u64 v[14:15], s[4:5], 0, v[28:29]
	v_lshl_add_u64 v[14:15], v[24:25], 1, v[14:15]
	global_load_dwordx4 v[14:17], v[14:15], off
	s_waitcnt vmcnt(0)
	v_mov_b32_e32 v29, v14
	s_branch .LBB0_11
.LBB0_9:
	v_mov_b32_e32 v11, 0
	v_mov_b32_e32 v12, 0
	v_mov_b32_e32 v13, 0
	s_and_b64 vcc, exec, s[0:1]
	v_mov_b32_e32 v29, 0
	s_cbranch_vccz .LBB0_8
.LBB0_10:
	v_mov_b32_e32 v15, 0
	v_mov_b32_e32 v16, 0
	v_mov_b32_e32 v17, 0
.LBB0_11:
	v_lshlrev_b32_e32 v10, 4, v0
	v_and_b32_e32 v14, 56, v0
	v_xor_b32_e32 v10, v10, v14
	v_add_u32_e32 v34, 0, v10
	s_waitcnt vmcnt(0)
	ds_write2st64_b64 v34, v[2:3], v[6:7] offset1:2
	v_xor_b32_e32 v2, 8, v10
	v_bfe_i32 v3, v0, 1, 1
	v_add_u32_e32 v35, 0, v2
	v_bfe_i32 v2, v0, 0, 1
	v_and_b32_e32 v3, 0x408, v3
	s_movk_i32 s0, 0x220
	v_and_or_b32 v2, v2, s0, v3
	v_xor_b32_e32 v2, v2, v1
	v_add_u32_e32 v36, 0, v2
	s_mov_b32 s0, 0x5040100
	s_mov_b32 s1, 0x7060302
	ds_write2st64_b64 v35, v[4:5], v[8:9] offset1:2
	v_perm_b32 v3, v29, v27, s0
	v_perm_b32 v4, v29, v27, s1
	v_add_u32_e32 v1, 0x800, v36
	ds_write2_b32 v1, v3, v4 offset1:16
	v_xor_b32_e32 v3, 8, v2
	v_add_u32_e32 v37, 0, v3
	v_perm_b32 v3, v15, v11, s0
	v_perm_b32 v4, v15, v11, s1
	v_add_u32_e32 v47, 0x800, v37
	ds_write2_b32 v47, v3, v4 offset0:32 offset1:48
	v_xor_b32_e32 v3, 16, v2
	v_add_u32_e32 v38, 0, v3
	v_xor_b32_e32 v2, 24, v2
	v_and_b32_e32 v30, 32, v0
	v_perm_b32 v3, v16, v12, s0
	v_perm_b32 v4, v16, v12, s1
	v_add_u32_e32 v48, 0x800, v38
	v_add_u32_e32 v39, 0, v2
	s_sub_i32 s3, s8, 32
	v_and_b32_e32 v28, 31, v0
	ds_write2_b32 v48, v3, v4 offset0:64 offset1:80
	v_perm_b32 v2, v17, v13, s0
	v_perm_b32 v3, v17, v13, s1
	v_add_u32_e32 v49, 0x800, v39
	v_mov_b32_e32 v23, 0
	s_cmp_lt_i32 s3, 1
	v_bfe_i32 v31, v0, 4, 1
	v_lshlrev_b32_e32 v33, 2, v0
	v_lshrrev_b32_e32 v32, 2, v30
	v_lshlrev_b32_e32 v29, 6, v0
	ds_write2_b32 v49, v2, v3 offset0:96 offset1:112
	s_cbranch_scc1 .LBB0_15
	v_and_b32_e32 v2, 56, v33
	v_and_b32_e32 v3, 0x408, v31
	v_xor_b32_e32 v2, v2, v32
	s_movk_i32 s10, 0x3c0
	v_xor_b32_e32 v3, v2, v3
	v_lshl_or_b32 v2, v28, 6, v2
	v_lshl_add_u64 v[20:21], v[20:21], 0, v[22:23]
	v_and_or_b32 v3, v29, s10, v3
	v_add_u32_e32 v40, 0, v2
	global_load_dwordx4 v[50:53], v[20:21], off offset:64
	global_load_dwordx4 v[54:57], v[18:19], off offset:64
	s_waitcnt lgkmcnt(0)
	ds_read_b64 v[58:59], v40
	v_xor_b32_e32 v4, 16, v3
	v_add_u32_e32 v41, 0, v4
	v_xor_b32_e32 v4, 16, v2
	v_add_u32_e32 v22, 0, v3
	v_add_u32_e32 v42, 0, v4
	v_xor_b32_e32 v4, 32, v3
	v_xor_b32_e32 v3, 48, v3
	v_add_u32_e32 v43, 0, v4
	v_add_u32_e32 v45, 0, v3
	ds_read_b64 v[60:61], v22 offset:2048
	ds_read_b64 v[62:63], v41 offset:2048
	ds_read_b64 v[64:65], v43 offset:2048
	ds_read_b64 v[66:67], v45 offset:2048
	v_xor_b32_e32 v4, 32, v2
	v_xor_b32_e32 v2, 48, v2
	v_add_u32_e32 v44, 0, v4
	v_add_u32_e32 v46, 0, v2
	s_waitcnt lgkmcnt(3)
	v_mfma_f32_32x32x8_f16 v[2:17], v[60:61], v[58:59], 0
	ds_read_b64 v[68:69], v42
	ds_read_b64 v[70:71], v44
	ds_read_b64 v[72:73], v46
	v_lshl_add_u64 v[24:25], v[24:25], 1, s[4:5]
	v_mov_b32_e32 v27, v23
	v_lshl_add_u64 v[26:27], v[24:25], 0, v[26:27]
	s_mov_b32 s4, 0x10000
	v_add_co_u32_e32 v26, vcc, s4, v26
	s_waitcnt lgkmcnt(2)
	v_mfma_f32_32x32x8_f16 v[2:17], v[62:63], v[68:69], v[2:17]
	v_addc_co_u32_e32 v27, vcc, 0, v27, vcc
	s_cmp_lt_u32 s3, 33
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_32x32x8_f16 v[2:17], v[64:65], v[70:71], v[2:17]
	global_load_dwordx4 v[58:61], v[26:27], off
	global_load_dwordx4 v[62:65], v[26:27], off offset:2048
	s_waitcnt vmcnt(2) lgkmcnt(0)
	ds_write2st64_b64 v34, v[50:51], v[54:55] offset1:2
	ds_write2st64_b64 v35, v[52:53], v[56:57] offset1:2
	v_mfma_f32_32x32x8_f16 v[2:17], v[66:67], v[72:73], v[2:17]
	s_waitcnt vmcnt(0)
	v_perm_b32 v23, v62, v58, s0
	v_perm_b32 v26, v62, v58, s1
	v_perm_b32 v27, v63, v59, s0
	v_perm_b32 v50, v63, v59, s1
	v_perm_b32 v51, v64, v60, s0
	v_perm_b32 v52, v64, v60, s1
	v_perm_b32 v53, v65, v61, s0
	v_perm_b32 v54, v65, v61, s1
	ds_write2_b32 v1, v23, v26 offset1:16
	ds_write2_b32 v47, v27, v50 offset0:32 offset1:48
	ds_write2_b32 v48, v51, v52 offset0:64 offset1:80
	ds_write2_b32 v49, v53, v54 offset0:96 offset1:112
	s_cbranch_scc1 .LBB0_16
	v_lshlrev_b32_e32 v0, 9, v0
	v_and_b32_e32 v0, 0x7800, v0
	v_or_b32_e32 v0, 0x10000, v0
	s_mov_b32 s0, 32
	s_mov_b32 s4, 0x5040100
	s_mov_b32 s5, 0x7060302
.LBB0_14:
	s_add_i32 s0, s0, 32
	s_ashr_i32 s1, s0, 31
	s_lshl_b64 s[10:11], s[0:1], 1
	v_lshl_add_u64 v[26:27], v[20:21], 0, s[10:11]
	v_lshl_add_u64 v[56:57], v[18:19], 0, s[10:11]
	global_load_dwordx4 v[48:51], v[26:27], off
	global_load_dwordx4 v[52:55], v[56:57], off
	s_waitcnt lgkmcnt(0)
	ds_read_b64 v[26:27], v22 offset:2048
	ds_read_b64 v[56:57], v40
	ds_read_b64 v[58:59], v42
	ds_read_b64 v[60:61], v44
	ds_read_b64 v[64:65], v46
	ds_read_b64 v[62:63], v41 offset:2048
	ds_read_b64 v[66:67], v43 offset:2048
	ds_read_b64 v[68:69], v45 offset:2048
	s_waitcnt lgkmcnt(6)
	v_mfma_f32_32x32x8_f16 v[2:17], v[26:27], v[56:57], v[2:17]
	v_ashrrev_i32_e32 v1, 31, v0
	v_lshl_add_u64 v[26:27], v[0:1], 1, v[24:25]
	v_add_u32_e32 v1, 0x800, v36
	s_cmp_lt_i32 s0, s3
	v_add_u32_e32 v0, 0x8000, v0
	v_add_u32_e32 v23, 0x800, v37
	s_waitcnt lgkmcnt(2)
	v_mfma_f32_32x32x8_f16 v[2:17], v[62:63], v[58:59], v[2:17]
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_32x32x8_f16 v[2:17], v[66:67], v[60:61], v[2:17]
	global_load_dwordx4 v[56:59], v[26:27], off
	global_load_dwordx4 v[60:63], v[26:27], off offset:2048
	s_waitcnt lgkmcnt(0)
	v_add_u32_e32 v26, 0x800, v38
	v_add_u32_e32 v27, 0x800, v39
	s_waitcnt vmcnt(2)
	ds_write2st64_b64 v34, v[48:49], v[52:53] offset1:2
	ds_write2st64_b64 v35, v[50:51], v[54:55] offset1:2
	v_mfma_f32_32x32x8_f16 v[2:17], v[68:69], v[64:65], v[2:17]
	s_waitcnt vmcnt(0)
	v_perm_b32 v47, v60, v56, s4
	v_perm_b32 v48, v60, v56, s5
	v_perm_b32 v49, v61, v57, s4
	v_perm_b32 v50, v61, v57, s5
	v_perm_b32 v51, v62, v58, s4
	v_perm_b32 v52, v62, v58, s5
	v_perm_b32 v53, v63, v59, s4
	v_perm_b32 v54, v63, v59, s5
	ds_write2_b32 v1, v47, v48 offset1:16
	ds_write2_b32 v23, v49, v50 offset0:32 offset1:48
	ds_write2_b32 v26, v51, v52 offset0:64 offset1:80
	ds_write2_b32 v27, v53, v54 offset0:96 offset1:112
	s_cbranch_scc1 .LBB0_14
	s_branch .LBB0_16
.LBB0_15:
	v_mov_b32_e32 v2, 0
	v_mov_b32_e32 v3, v2
	v_mov_b32_e32 v4, v2
	v_mov_b32_e32 v5, v2
	v_mov_b32_e32 v6, v2
	v_mov_b32_e32 v7, v2
	v_mov_b32_e32 v8, v2
	v_mov_b32_e32 v9, v2
	v_mov_b32_e32 v10, v2
	v_mov_b32_e32 v11, v2
	v_mov_b32_e32 v12, v2
	v_mov_b32_e32 v13, v2
	v_mov_b32_e32 v14, v2
	v_mov_b32_e32 v15, v2
	v_mov_b32_e32 v16, v2
	v_mov_b32_e32 v17, v2
.LBB0_16:
	s_add_i32 s8, s8, 31
	s_cmp_lt_i32 s8, 32
	s_waitcnt lgkmcnt(0)
	s_cbranch_scc1 .LBB0_18
	v_and_b32_e32 v0, 56, v33
	v_and_b32_e32 v1, 0x408, v31
	v_xor_b32_e32 v0, v0, v32
	v_xor_b32_e32 v1, v0, v1
	s_movk_i32 s0, 0x3c0
	v_and_or_b32 v1, v29, s0, v1
	v_add_u32_e32 v18, 0, v1
	ds_read_b64 v[20:21], v18 offset:2048
	v_lshl_or_b32 v0, v28, 6, v0
	v_add_u32_e32 v18, 0, v0
	ds_read_b64 v[22:23], v18
	v_xad_u32 v18, v1, 16, 0
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[2:17], v[20:21], v[22:23], v[2:17]
	ds_read_b64 v[20:21], v18 offset:2048
	v_xad_u32 v18, v0, 16, 0
	ds_read_b64 v[22:23], v18
	v_xad_u32 v18, v1, 32, 0
	v_xad_u32 v1, v1, 48, 0
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[2:17], v[20:21], v[22:23], v[2:17]
	ds_read_b64 v[20:21], v18 offset:2048
	v_xad_u32 v18, v0, 32, 0
	ds_read_b64 v[18:19], v18
	v_xad_u32 v0, v0, 48, 0
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[2:17], v[20:21], v[18:19], v[2:17]
	ds_read_b64 v[18:19], v1 offset:2048
	ds_read_b64 v[0:1], v0
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[2:17], v[18:19], v[0:1], v[2:17]
.LBB0_18:
	v_or_b32_e32 v1, s9, v28
	v_lshrrev_b32_e32 v0, 3, v30
	v_lshlrev_b32_e32 v18, 10, v1
	v_or_b32_e32 v0, s2, v0
	v_ashrrev_i32_e32 v19, 31, v18
	v_lshl_add_u64 v[18:19], v[18:19], 2, s[6:7]
	v_ashrrev_i32_e32 v1, 31, v0
	v_lshl_add_u64 v[18:19], v[0:1], 2, v[18:19]
	s_nop 2
	v_mul_f32_e32 v0, 0x3fb8aa3b, v2
	s_mov_b32 s0, 0xc2fc0000
	v_cmp_gt_f32_e32 vcc, s0, v0
	v_mov_b32_e32 v21, 0x42800000
	v_not_b32_e32 v20, 63
	v_cndmask_b32_e32 v1, 0, v21, vcc
	v_fmac_f32_e32 v1, 0x3fb8aa3b, v2
	v_mul_f32_e32 v2, 0x3fb8aa3b, v3
	v_cndmask_b32_e32 v0, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v2
	v_exp_f32_e32 v1, v1
	s_nop 0
	v_cndmask_b32_e32 v22, 0, v21, vcc
	v_fmac_f32_e32 v22, 0x3fb8aa3b, v3
	v_exp_f32_e32 v3, v22
	v_mul_f32_e32 v22, 0x3fb8aa3b, v4
	v_cndmask_b32_e32 v2, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v22
	v_ldexp_f32 v0, v1, v0
	v_ldexp_f32 v1, v3, v2
	v_cndmask_b32_e32 v23, 0, v21, vcc
	v_fmac_f32_e32 v23, 0x3fb8aa3b, v4
	v_exp_f32_e32 v4, v23
	v_mul_f32_e32 v23, 0x3fb8aa3b, v5
	v_cndmask_b32_e32 v22, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v23
	v_ldexp_f32 v2, v4, v22
	v_mul_f32_e32 v4, 0x3fb8aa3b, v6
	v_cndmask_b32_e32 v24, 0, v21, vcc
	v_fmac_f32_e32 v24, 0x3fb8aa3b, v5
	v_exp_f32_e32 v5, v24
	v_cndmask_b32_e32 v23, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v4
	v_ldexp_f32 v3, v5, v23
	s_nop 0
	v_cndmask_b32_e32 v5, 0, v21, vcc
	v_fmac_f32_e32 v5, 0x3fb8aa3b, v6
	v_mul_f32_e32 v6, 0x3fb8aa3b, v7
	v_cndmask_b32_e32 v4, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v6
	v_exp_f32_e32 v5, v5
	s_nop 0
	v_cndmask_b32_e32 v22, 0, v21, vcc
	v_fmac_f32_e32 v22, 0x3fb8aa3b, v7
	v_exp_f32_e32 v7, v22
	v_mul_f32_e32 v22, 0x3fb8aa3b, v8
	v_cndmask_b32_e32 v6, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v22
	v_ldexp_f32 v4, v5, v4
	v_ldexp_f32 v5, v7, v6
	v_cndmask_b32_e32 v23, 0, v21, vcc
	v_fmac_f32_e32 v23, 0x3fb8aa3b, v8
	v_exp_f32_e32 v8, v23
	v_mul_f32_e32 v23, 0x3fb8aa3b, v9
	v_cndmask_b32_e32 v22, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v23
	v_ldexp_f32 v6, v8, v22
	v_mul_f32_e32 v8, 0x3fb8aa3b, v10
	v_cndmask_b32_e32 v24, 0, v21, vcc
	v_fmac_f32_e32 v24, 0x3fb8aa3b, v9
	v_exp_f32_e32 v9, v24
	v_cndmask_b32_e32 v23, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v8
	v_ldexp_f32 v7, v9, v23
	s_nop 0
	v_cndmask_b32_e32 v9, 0, v21, vcc
	v_fmac_f32_e32 v9, 0x3fb8aa3b, v10
	v_mul_f32_e32 v10, 0x3fb8aa3b, v11
	v_cndmask_b32_e32 v8, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v10
	v_exp_f32_e32 v9, v9
	s_nop 0
	v_cndmask_b32_e32 v22, 0, v21, vcc
	v_fmac_f32_e32 v22, 0x3fb8aa3b, v11
	v_exp_f32_e32 v11, v22
	v_mul_f32_e32 v22, 0x3fb8aa3b, v12
	v_cndmask_b32_e32 v10, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v22
	v_ldexp_f32 v8, v9, v8
	v_ldexp_f32 v9, v11, v10
	v_cndmask_b32_e32 v23, 0, v21, vcc
	v_fmac_f32_e32 v23, 0x3fb8aa3b, v12
	v_exp_f32_e32 v12, v23
	v_mul_f32_e32 v23, 0x3fb8aa3b, v13
	v_cndmask_b32_e32 v22, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v23
	v_ldexp_f32 v10, v12, v22
	v_mul_f32_e32 v12, 0x3fb8aa3b, v14
	v_cndmask_b32_e32 v24, 0, v21, vcc
	v_fmac_f32_e32 v24, 0x3fb8aa3b, v13
	v_exp_f32_e32 v13, v24
	v_cndmask_b32_e32 v23, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v12
	v_ldexp_f32 v11, v13, v23
	s_nop 0
	v_cndmask_b32_e32 v13, 0, v21, vcc
	v_fmac_f32_e32 v13, 0x3fb8aa3b, v14
	v_mul_f32_e32 v14, 0x3fb8aa3b, v15
	v_cndmask_b32_e32 v12, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v14
	v_exp_f32_e32 v13, v13
	s_nop 0
	v_cndmask_b32_e32 v22, 0, v21, vcc
	v_fmac_f32_e32 v22, 0x3fb8aa3b, v15
	v_exp_f32_e32 v15, v22
	v_mul_f32_e32 v22, 0x3fb8aa3b, v16
	v_cndmask_b32_e32 v14, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v22
	v_ldexp_f32 v12, v13, v12
	v_ldexp_f32 v13, v15, v14
	v_cndmask_b32_e32 v23, 0, v21, vcc
	v_fmac_f32_e32 v23, 0x3fb8aa3b, v16
	v_exp_f32_e32 v16, v23
	v_mul_f32_e32 v23, 0x3fb8aa3b, v17
	v_cndmask_b32_e32 v22, 0, v20, vcc
	v_cmp_gt_f32_e32 vcc, s0, v23
	v_ldexp_f32 v14, v16, v22
	s_nop 0
	v_cndmask_b32_e32 v21, 0, v21, vcc
	v_fmac_f32_e32 v21, 0x3fb8aa3b, v17
	v_exp_f32_e32 v17, v21
	v_cndmask_b32_e32 v20, 0, v20, vcc
	v_ldexp_f32 v15, v17, v20
	global_store_dwordx4 v[18:19], v[0:3], off
	global_store_dwordx4 v[18:19], v[4:7], off offset:32
	global_store_dwordx4 v[18:19], v[8:11], off offset:64
	global_store_dwordx4 v[18:19], v[12:15], off offset:96
	s_endpgm
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
; NumVgprs: 74
; NumAgprs: 0
; TotalNumVgprs: 74
; ScratchSize: 0
; Occupancy: 6
	.text
	.text
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         16
        .value_kind:     global_buffer
      - .offset:         24
        .value_kind:     by_value
      - .address_space:  global
        .offset:         32
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         40
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 48
    .max_flat_workgroup_size: 64
    .name:           mm
    .private_segment_fixed_size: 0
    .sgpr_count:     22
    .sgpr_spill_count: 0
    .symbol:         mm.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     74
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
.Lline_table_start0:
