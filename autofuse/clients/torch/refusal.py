"""Reasons why an op of a graph stays with PyTorch."""

from __future__ import annotations

__all__ = [
    "ALGEBRA",
    "FOURIER",
    "PRODUCT",
    "REASONS",
    "SCATTER",
    "SORT",
    "RefusedError",
    "reason_for_kind",
]

PRODUCT = "matrix multiplication or convolution: work of the cube unit"
SCATTER = "scattered writes"
SORT = "sorting"
FOURIER = "a Fourier transform"
ALGEBRA = "linear algebra"


class RefusedError(Exception):
    """Kernels do not support an op or one of its tensors; the text is the reason in the report."""


_KINDS = {
    PRODUCT: """
        mm addmm bmm baddbmm dot vdot mv addmv addr convolution convolution_backward linear _convolution
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention
        _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu_backward _int_mm
        _addmm_activation _scaled_mm _grouped_mm _scaled_grouped_mm _weight_int8pack_mm
        _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention_backward
        _scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention_backward""",
    "data-dependent index": "index _unsafe_index take",
    SCATTER: """
        index_put _unsafe_index_put put embedding_dense_backward
        scatter scatter_add scatter_reduce index_add index_copy index_fill index_reduce masked_scatter
        _unsafe_masked_index_put_accumulate""",
    SORT: """
        sort topk kthvalue median nanmedian mode unique_dim _unique2 unique_consecutive searchsorted""",
    "random numbers": """
        rand randn randint rand_like randn_like randint_like bernoulli uniform normal native_dropout randperm
        inductor_random inductor_seeds inductor_lookup_seed philox_rand exponential geometric multinomial
        rrelu_with_noise_functional log_normal cauchy poisson""",
    "the shape of the result depends on the data": "nonzero masked_select _local_scalar_dense repeat_interleave",
    "a sliding window: pooling": """
        max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d
        max_pool2d_with_indices_backward avg_pool2d_backward adaptive_max_pool2d fractional_max_pool2d im2col col2im
        _low_memory_max_pool_with_offsets _low_memory_max_pool_offsets_to_indices""",
    "interpolation of images": "upsample_bicubic2d upsample_nearest2d_backward grid_sampler_2d grid_sampler_3d",
    FOURIER: "_fft_r2c _fft_c2r _fft_c2c",
    ALGEBRA: """
        linalg_cholesky_ex linalg_inv_ex linalg_lu_factor_ex linalg_qr _linalg_svd _linalg_eigh linalg_eig
        triangular_solve linalg_solve_triangular _linalg_solve_ex linalg_lu _linalg_det geqrf ormqr
        cholesky_solve linalg_ldl_factor_ex linalg_matrix_exp linalg_householder_product _linalg_slogdet""",
    "the result depends on strides": "as_strided as_strided_scatter as_strided_copy",
    "it writes into an argument of the function": "copy_",
    "it has no value that could be computed": "empty empty_strided empty_like empty_permuted new_empty",
}

#: Op name without namespace and overload -> why kernels do not support it.
REASONS: dict[str, str] = {op: why for why, names in _KINDS.items() for op in names.split()}


def reason_for_kind(name: str) -> str:
    """Return why an op without a row in the table is not fused."""
    return REASONS.get(name, "no kernel has this op")
