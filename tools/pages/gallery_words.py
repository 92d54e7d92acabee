"""Handwritten texts on the operators of the gallery: the purpose of each, and what its kernel shows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WORDS", "Words"]


@dataclass(frozen=True)
class Words:
    """The written part of one page.

    Attributes:
        title: heading of the page.
        purpose: what the operator is for.
        look: commentary on the kernel and the numbers of explain.  Text in backquotes is on the page.  A template title
            in braces, ``{total}`` and ``{form 0}`` are replaced with the model's time.
        group: group of the chosen form whose kernel is shown.
        variants: names of graphs with small differences, such as the dtype.
    """

    title: str
    purpose: str
    look: tuple[str, ...]
    group: int = 0
    variants: tuple[str, ...] = ()


WORDS: dict[str, Words] = {
    "rms_norm_residual": Words(
        "RMS norm of a sum",
        """\
The residual stream of a language model: what a block computed is added to its input, and the sum is divided by its
root mean square and weighed. The sum is an output as well, since the next block adds to it. Every transformer of
the Llama family does this twice in each layer.""",
        (
            "`x` and `residual` are loaded once. `hidden_local` is both the source of the cast to float32 and, at"
            " the end, what `store_1` writes: the second output costs a store and nothing else.",
            "The weight is the same for all tiles: it is loaded before the loop and spread over the rows of a"
            " tile by `BroadcastOuter`. No queue hands it over, so a flag of `MTE2_V` does.",
            "The mean stays one number per row: `mean_local`, `guard_local` and `inverse_2_local` have"
            " `z0t_actual_size` elements. `WithRows<autofuse::MulRow>` multiplies a row by its number, without a"
            " row of copies.",
            "`reduce_all` takes {reduce_all (tile z0)}, as whole rows are in UB: `reduce_rows_4` reads them"
            " again for the second pass and takes {reduce_rows_4 (tile z1)}.",
            "In the map of UB one buffer holds `weight, wide, normed`: the weight as it was loaded is not needed"
            " once it is spread, and the float32 rows move in.",
        ),
        variants=("rms_norm_residual_bfloat16",),
    ),
    "swiglu": Words(
        "SwiGLU",
        """\
The gate of the feed-forward block of Llama and its relatives: one matrix product makes `gate` and `up` side by
side, and the result is `silu(gate) * up`. As separate operators it would write and read `silu(gate)` once more.""",
        (
            "No slice is copied: both halves are loads of `gate_up_gm`, at `offset0` and, 11008 elements further,"
            " at `offset1`. Each has a queue of its own.",
            "`Silu` is computed in float32 between two casts, as its input has 16 bits; `Mins` keeps `Exp` finite"
            " and `Maxs` keeps minus infinity from becoming NaN.",
            "There is no `PipeBarrier` before `Maxs`: it reads nothing that `Div` writes, so it is issued right"
            " behind it.",
            "`general` cuts a row into tiles and takes {general (tile z1)}, little more than GM. `row` would"
            " have whole rows of 11008 in UB: there is room for one at a time, and it wins for no size.",
        ),
    ),
    "rotary_embedding": Words(
        "Rotary embedding",
        """\
Positions of a language model: the two halves of each head of the query are turned by an angle that depends on the
token alone. The keys are turned the same way.""",
        (
            "Neither `Slice` nor `Concat` is a copy of its own: `offset1` is 64 elements behind `offset0`, and"
            " `block0` and `block2` step over the other half, 128 bytes, between the 32 heads of a token.",
            "Each half is loaded once and used twice: `query_local` is freed after `a_by_sin`, `query_2_local`"
            " after `b_by_cos`.",
            "`v_cos_local` has 64 numbers per token; `BroadcastOuter` spreads them over the 32 heads in UB, once"
            " for both products. `row` takes {row (tile z1)}; `general`, one head of one token at a time, wins for no"
            " size.",
            "The first half of the result is on its way to GM (`store`) before the second one is computed: DMA"
            " and vector unit work at the same time.",
        ),
    ),
    "masked_softmax": Words(
        "Masked softmax",
        """\
Attention weights, where attention is no kernel of its own: scores are scaled, those of keys that the mask hides
become very small, and a softmax along the keys follows. All 16 heads have the same mask.""",
        (
            "`offset0`, that of the mask, does not depend on the head `z1`, `offset1` does: the mask is never"
            " written out for all heads.",
            "The mask has bytes in GM and bits in the unit: `CompareScalar` makes them, and `Select` in"
            " `VSEL_TENSOR_SCALAR_MODE` puts -10000 where a bit is 0, without a tensor full of that number.",
            "Rows start at multiples of 32 elements in UB, whatever `keys` is. `ReduceInner` is told both `keys`"
            " and this pitch, so that no result depends on the padding; the other calls go over it.",
            "Largest number and sum of a row stay one number per row: `WithRows<autofuse::SubRow>` and"
            " `WithRows<autofuse::DivRow>` read them from one block.",
            "`reduce_all` with 8 rows takes {reduce_all (tile z2)}; `reduce`, {reduce (tile z3)} here, is in the"
            " same kernel for rows that are too long for UB. The host function chooses by the sizes of a call.",
        ),
    ),
    "layer_norm": Words(
        "Layer norm",
        """\
Each token's vector gets mean 0 and variance 1, then scale and shift: the norm of BERT, GPT-2 and many models of
recommendation. Mean and reciprocal deviation are outputs too, as the gradient needs them.""",
        (
            "`x` is loaded once. The variance is that of `centre_local`, which stays in UB for `square` and for"
            " `scale`: two passes over numbers that are there, none over GM.",
            "`mean_local` and `rstd_local` come from queues, as they are outputs; `WithRows<autofuse::SubRow>`"
            " reads them there, and they are stored last.",
            "`v_gamma_local` and `beta_local` are loaded, made float32 and spread before the loop, once per core.",
            "`reduce_all` has 9 rows in a tile and takes {reduce_all (tile z0)}. `reduce`, one row at a time,"
            " wins for no size: for short rows calls cost more than what they compute.",
        ),
    ),
    "layer_norm_backward": Words(
        "Gradient of a layer norm",
        """\
What training needs of the layer norm: the gradient of `x`, which reduces along each row, and those of `gamma` and
`beta`, which reduce over all rows. One group makes the first and, of a part of the rows on each core, the others.""",
        (
            "Form 0 has a group for the rows and another one for the columns, so it loads `x` and `dy` twice:"
            " {form 0} in all. Form 2 loads them once: {total} in all.",
            "A part is 171 rows, `z0T` counts them: one for every core at the hint. The last one is shorter, whatever"
            " `tokens` is: `z0t_actual_size`.",
            "A tile holds whole rows, so each `ReduceInner` completes the sums of its rows: `mean_weighed_local` has no"
            " accumulator.",
            "Few rows fit a tile. So `sum_gamma_parts_acc_local` and `sum_beta_parts_acc_local` hold as many, an `Add`"
            " takes them all, and `ReduceOuter` adds them up once, after the loop.",
            "What a core found is one row of a workspace, `Workspace_0_gm` and `Workspace_1_gm`; groups 1 and 2 add up"
            " 48 rows behind the barrier of all cores.",
        ),
    ),
    "log_sum_exp": Words(
        "Log-sum-exp over a vocabulary",
        """\
The normaliser of a cross entropy: the logarithm of the sum of the exponentials of all 32000 logits of a token. The
largest logit is subtracted first, so that nothing overflows.""",
        (
            "A row of 32000 float32 does not fit UB beside what is made of it: explain says so of `reduce_all`,"
            " and `reduce` goes through a row in two steps of 16000.",
            "The logits are read once all the same. The sum is that about the largest number so far: when it"
            " grows, `exponential_move_local` is the factor that corrects `sum_acc_local`.",
            "`largest_centre_local` is not below the least float32, so that a step of minus infinities alone has"
            " no NaN; `largest_lost_local` puts back the NaN that belongs there.",
            "All that is left for the end of a row is one number: `logarithm_local` and the sum with"
            " `largest_acc_local`.",
            "Vector work takes longer than GM here; loads run ahead behind it, and the logits pass by L2 as they"
            " are more than it holds.",
        ),
    ),
    "quantise_per_token": Words(
        "Dynamic int8 quantisation",
        """\
In front of a matrix product of int8: each token gets the scale with which its largest element becomes 127. It is
called dynamic as the scale is that of the data at hand, not one that was found beforehand.""",
        (
            "`x` is loaded and made float32 once: `widen_local` feeds both the largest absolute value and, after"
            " it, `stretch`.",
            "The quotient 127 / largest is computed per row, `factor_1_local`, and `WithRows<autofuse::MulRow>`"
            " multiplies by it: no element is divided.",
            "`factor_local` holds 127 and is written once per core; the scale that is stored, `unit`, divides by"
            " the same numbers.",
            "There is no conversion from float32 to int8: `CAST_RINT` rounds, the next cast goes to half, which"
            " holds integers up to 2048, and the last one to int8.",
            "`reduce_all` takes {reduce_all (tile z0)}. `reduce` wins for no size: what is quantised would be"
            " loaded again.",
        ),
    ),
    "adamw": Words(
        "AdamW, in place",
        """\
One step of the optimizer that trains most language models. Parameters and both moments are outputs in place
(`inout`): the kernel writes where it read. What changes from step to step comes as scalars.""",
        (
            "Each tile is loaded before it is stored and no other tile touches it, so writing in place needs no"
            " copy and no barrier between cores.",
            "The scalar unit reads the scalars from GM, by `GetValue`, before the loop: they need no DMA and no flag."
            " They are operands of `Muls` in the loop.",
            "`m`, `v`, `param` and `grad` have a queue of two buffers each (`2 x 5120` bytes, `grad` half of that): a"
            " tile is loaded while the one before it is computed.",
            "The gradient is made float32 once: `widen_local` is read by `add_m` and by `square`.",
            "GM is all that counts: {total}, and what the units do hides behind it. Explain says that loads of"
            " `grad` bypass L2: nobody reads it again.",
        ),
    ),
    "gelu_bias_dropout": Words(
        "GELU with bias and dropout",
        """\
The middle of a feed-forward block in training: bias, GELU, and a mask that drops a tenth of the elements and scales
the others. The mask comes from outside, so that the gradient can use the same one.""",
        (
            "All calls whose comment says `gelu` are one node of the graph. The error function is no call: a"
            " quotient of polynomials times an exponential, with terms enough for 16 bits.",
            "The bias is loaded and spread over the rows of a tile before the loop, `broadcast_0_local`.",
            "Bytes of the mask become bits (`CompareScalar`), and `Select` puts 0 where an element is dropped:"
            " also where it is infinite, as no product would.",
            "The vector unit is what counts. `row` takes {row (tile z0)}; `general` takes {general (tile z1)}, as"
            " it loads the bias for each row.",
        ),
    ),
    "group_norm": Words(
        "Group norm",
        """\
The norm of diffusion models: mean and variance of the 10 channels of a group with all their pixels, then scale and
shift per channel. With symbols for batch and pixels one kernel serves all resolutions.""",
        (
            "The channels of a group, 10 x 4096 pixels, do not fit UB: `reduce` has 2 of them in a step and reads"
            " them twice, once for the numbers and once for the result. Mean and variance as separate loops would"
            " read them three times.",
            "The variance is made in the pass of the mean: `average_1_running_local` is the mean so far, and"
            " `spread_reducesum_shifted_local` corrects the sum of squares by how far it moved,"
            " `average_1_move_local`.",
            "A sum over pixels and channels is two calls: one number per channel"
            " (`average_reducesum_part_step0_local`), then one.",
            "Scale and shift are one number per channel: `WithRows<autofuse::MulRow>` and"
            " `WithRows<autofuse::AddRow>`.",
            "Smaller pictures fit: then the host function takes `reduce_all`, of which explain says here that no"
            " tile fits UB.",
        ),
    ),
    "embedding_gather": Words(
        "Embeddings by id",
        """\
The first kernel of a language model, and most of a model of recommendation: a row of a table for each id, here
scaled and with the row of its position added.""",
        (
            "The ids go to UB by DMA, and the scalar unit reads them: a flag of `MTE2_S` stands between. Then"
            " each row of the table is a `DataCopyPad` of 1536 bytes, to where the sum needs it.",
            "`IndexIn` counts negative ids from the end and keeps others inside of the table; on the twin one"
            " that is outside is an error.",
            "`offset1`, that of the positions, does not depend on `z0`: all sequences of the batch have the same.",
            "`row` has 16 ids in a tile: it waits for ids once per tile and takes {row (tile z1)}. `general`"
            " waits for each id: {general (tile z2)}.",
        ),
    ),
    "kv_cache_transpose": Words(
        "Keys for the cache, transposed",
        """\
Keys are written to the cache the way the product with the queries reads them: positions innermost, one matrix per
head. The scale of attention is multiplied in on the way.""",
        (
            "Both sides of GM are touched in runs of neighbours: `block0` loads pieces of rows of 1024, `block1`"
            " stores runs of 32 positions. `TransposeRows` turns a tile in UB, in between.",
            "Heads and their 128 numbers stay side by side, so they are one axis, `z1z2`, of 1024.",
            "`general` stores runs but loads element by element, each a row of a DMA command, and wins for no size."
            " With the transposition in UB it is {transpose_z3_32 (tile z1z2)}.",
            "The templates of this family differ in which axis the host function solves for, and by little in"
            " time.",
            "`SetL2CacheHint`: where the tensors are more than L2 holds, the loads pass by it.",
        ),
    ),
}
