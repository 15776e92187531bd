"""Sums of exp(score * scale), relative to a peak that rises as further scores are taken in.

Online softmax (Milakov and Gimelshein, 2018). What is summed relative to one peak is multiplied by a factor, to be
relative to a higher one; so two parts of the scores can be summed up apart and merged.
"""

import ninetoothed.language as ntl


def decay(peak, new_peak, scale, may_be_hidden):
    """The factor exp((peak - new_peak) * scale).

    scale: None where scores are scaled before. may_be_hidden: whether all scores of a row may be -inf so far.
    """
    shift = ntl.where(new_peak == float("-inf"), 0.0, new_peak) if may_be_hidden else new_peak

    return ntl.exp(peak - shift) if scale is None else ntl.exp((peak - shift) * scale)


def merged(part, other, scale, may_be_hidden):
    """Merge two parts, (peak, sum, sum of weighted rows) each, of which the last has an axis more."""
    peak, total, accumulator = part
    other_peak, other_total, other_accumulator = other

    new_peak = ntl.maximum(peak, other_peak)
    factor, other_factor = (decay(each, new_peak, scale, may_be_hidden) for each in (peak, other_peak))

    return (
        new_peak,
        total * factor + other_total * other_factor,
        accumulator * factor[:, None] + other_accumulator * other_factor[:, None],
    )
