"""Mutants that are no bugs, each with its reason; the first pattern that fits a mutant's name counts."""

_NAN = "differs on NaN alone, which is not judged here, or which a later operation brings back"
_WINDOWS_NAN = "differs on NaN alone, which is not judged where one input is part of several outputs"
_NEVER_RUN = "the loop for what is left of a window never runs: its points are jammed without a rest"
_IN_ROWS = "the task's inputs lie row by row; on the turned ones the same change is found"
_SCRATCH = "the first buffer is scratch; a kernel may keep that"
_SCAN = "torch scans in float32 itself: honest arithmetic"
_MASK = "what is rounded is a mask, whose 0 and 1 fit any format"
_COARSE_EXP = (
    "an exponential is wrong by up to 2e-5, and so is the logarithm of their sum, on values of scale 3 or "
    "above: within the tolerance"
)
_FLAT_MISH = (
    "below -20 a mish is within 5e-8 of zero, above 20 the task clips; of an infinity the reference makes "
    "NaN, and a number is allowed there"
)
_AT_MOST_ZERO = "the exponential's arguments are at most 0 here: the maximum was subtracted"

EQUIVALENT: dict[str, str] = {
    "[!8]*/prelude/nan_lost_in_max/*": _NAN,
    "21_MaxPool2d/meaning/nan_made_zero/*": _WINDOWS_NAN,
    "*/meaning/subnormals_flushed/*": "subnormals are 30 orders of magnitude below any tolerance",
    "1_BiasReluScale/m*/contiguous_*/*": _IN_ROWS,
    "7_RowSum/m*/contiguous_*/*": _IN_ROWS,
    "27_Softmax/m*/contiguous_*/*": _IN_ROWS,
    "*/module/zeroed_result/*": "memory that is written whole is cleared first: slower, not wrong",
    "*/kernel/float_total/*": "64 partial sums joined in float32: honest arithmetic in another order",
    "6_RowColumnElu/kernel/equal_counts_too/*": "both branches are 0 at 0",
    "19_SmoothL1/kernel/equal_counts_too/*": "both branches have the same value at the threshold",
    "11_LogSumExpRows/prelude/exp_without_overflow/*": _AT_MOST_ZERO,
    "18_CrossEntropy/prelude/exp_without_overflow/*": _AT_MOST_ZERO,
    "20_KullbackLeibler/prelude/exp_without_overflow/*": _AT_MOST_ZERO,
    "27_Softmax*/prelude/exp_without_overflow/*": _AT_MOST_ZERO,
    "28_ChannelLogSoftmax/prelude/exp_without_overflow/*": _AT_MOST_ZERO,
    "*/prelude/logarithm_of_subnormals/*": "the logarithm's argument, a sum with exp(0) in it, is at least 1",
    "4_MishClampShift/prelude/exp_without_overflow/*": "beyond 20 the exponential's result is not used",
    "4_MishClampShift/meaning/input_clipped/*": _FLAT_MISH,
    "4_MishClampShift/prelude/coarse_polynomial/*": "its 2e-5 are 5e-6 of a mish: within the tolerance",
    "11_LogSumExpRows/prelude/coarse_polynomial/*": _COARSE_EXP,
    "18_CrossEntropy/prelude/coarse_polynomial/*": _COARSE_EXP,
    "28_ChannelLogSoftmax/prelude/coarse_polynomial/*": _COARSE_EXP,
    "9_MiddleAxisMean/meaning/wrong_axis/1": "axis -2 of three is axis 1",
    "14_BatchNormTrain/module/result_buffer_kept/*": _SCRATCH,
    "17_FrobeniusScale/module/result_buffer_kept/*": _SCRATCH,
    "18_CrossEntropy/module/result_buffer_kept/*": _SCRATCH,
    "20_KullbackLeibler/module/result_buffer_kept/*": _SCRATCH,
    "15_InstanceNorm/kernel/equal_counts_too/*": "both branches are 0 at 0",
    "19_SmoothL1/kernel/constant_off/*": "the branches touch there; moved by a thousandth it costs 4e-7",
    "19_SmoothL1/module/pointers_swapped/*": "the loss does not know which of the two is the wanted one",
    "24_CumulativeSum/kernel/scan_in_float/*": _SCAN,
    "25_ReverseCumulativeSum/kernel/scan_in_float/*": _SCAN,
    "26_MaskedCumulativeProduct/kernel/scan_in_float/*": _SCAN,
    "26_MaskedCumulativeProduct/kernel/input_in_*/*": _MASK,
    "32_LowerTriangularMatmul/meaning/operation_dropped/0": "a product of lower triangular matrices is one",
    "7_RowSum/meaning/input_made_positive/*": "squares do not know signs",
    "31_DiagonalBothSides/meaning/transposed/*": "a diagonal matrix is its own transposed",
    "47_LinearDropoutSoftmax/meaning/operation_dropped/1": "dropout does nothing in evaluation",
    "54_ResidualBlock/meaning/weights_assumed/0": "the convolution has no bias to leave out",
    "8_ColumnMax/meaning/wrong_axis/*": "axis -2 of a matrix is axis 0",
    "14_BatchNormTrain/module/result_in_the_input/*": "the new mean goes where the old one was",
    "21_MaxPool2d/kernel/window_too_narrow/0": "the position is odd there, so it is never 0",
    "21_MaxPool2d/kernel/reduction_keeps_first/0": "what came before the first value is minus infinity",
    "2[12]_*Pool?d/kernel/wrong_stride/7": _NEVER_RUN,
    "9_MiddleAxisMean/meaning/input_clipped/*": "the task clips to [-1, 2] itself",
}
