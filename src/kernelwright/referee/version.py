"""Which referee judged: verdicts and figures of one version may be compared, those of two may not."""

REFEREE_VERSION = 11
"""Raised when a change can turn a verdict or move a figure.

Version 1 is everything before version 2. In version 2 calls are started from outside and their outputs read
from outside, weights change while calls are timed, all processor time is in one account, odd rows and
non-finite values are drawn, and floors rest on peaks that no compiler shortens. In version 3 a final also
judges and times the delivered module in ordinary processes, and bounds its peak memory. In version 4 a
candidate is stopped in the reference's turns, its times are corrected by what new values cost, series end
where nobody knows, integers, masks and constant tensors are drawn in more ways, inputs also begin where
views begin, rows are sorted and inputs alike, single weights move and trade places, half precisions get 4
units for roundings, every second pair of a final is timed after its replay, and peak memory counts from the
empty process on. In version 5 weights also change in the middle of series of calls and have large, tiny and
zero elements, a search replays only who leads, and a final draws fewer samples with an oracle. In version 6
an image counts as one row where the reference convolves, so that Winograd's and Fourier's transforms pass.
In version 7 complex and tied weights, positions, wide integers, zeros, flags, full masks and odd elements
right after ordinary ones are drawn, inputs are renewed in the replay, and timed weights are not constant;
values that a reference treats apart are followed through slices and found beside bounds, and whole rows get
them; labels agree with scores, slices of weights are odd, and NaN is tried where it is handled; what is
sorted by row stays so, ties and roundings count for floats, integers that hang on roundings may differ, and
what a mask excludes need not be read. On a GPU, versions 6 and 7 were mended without a new number, before
anybody had figures of one to compare. In version 8 complex outputs are read from outside too, calls also come
one at a time, samples that a candidate met are drawn anew by lot, inputs that are always alike are renewed
one by one, weights that every construction makes alike are others in timed calls, sums of inputs cancel, what
is rounded is an integer already, integers have as many bits as the reference is exact with, and parameters
are zero as a whole or like each other.
In version 9 an output is moved until no further element jumps, small jumps count, what torch computes inside
its own functions is moved too, and whoever puts the very same state of the random generator back has not
tampered with it. In version 10 rows are narrow, too, and rows are also whole channels or images; numbers of
few bits stay as they are when inputs are moved; values are special also in small tensors and after additions;
infinities are tried one by one, where they leave the reference finite; inputs are like buffers, buffers have
zeros, labels are among the largest scores; a mask is always asked for once; whole inputs are positive or far
from zero; float64 tasks move by units of float64, and constant factors in half precision count; weights
change while no call is fed, those with many names too, and series of calls that come one at a time also end
anywhere. In version 11 inputs and parameters are also small as a whole, buffers have other signs, no label
may count, rows of positions move, and values are special by their size and in long lists; float64 has a wider
floor, and what float32 holds beside it is exact; an infinity of which the reference makes NaN is not tried;
buffers are compared after long series, and weights of any number of names change; inputs that hold little, or
come back in part, are renewed element by element. It was mended without a new number: the scores of a fused
attention move in the oracle, as those of one by hand do, so that fewer honest kernels are rejected;
and slow calls get nine samples where three filled the time, which narrows intervals. The reference's process
leaves MKL's choice of threads alone, so that its parallel calls of MKL take as long as the candidate's.
The oracle is moved only until an output is near enough, which turns no verdict: more moves only allow more.
Where samples take long to make, a search draws a twelfth of those that were met anew, no longer a third; a
final draws all anew. Where torch.compile alone would be delivered, ordinary processes time that model, no
longer a file that stands for it, whose guards made it look slower; and what compiles again for one thread has
the time limit of a first call, so that fewer honest programs time out. A running mean is judged beside the
size of what it averages, so that one that is zero but for roundings may be summed in float32. torch.compile
alone may take 256 MiB more than is allowed by ratio, no longer 64. Means and variances inside norms of torch
move in the oracle, as those of norms by hand do.
"""
