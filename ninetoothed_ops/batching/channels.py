"""Rules of norms of channels: each call has channels, and groups of them, of its own."""

from .batch import Batch


def group_norm(batch: Batch, input, num_groups, weight=None, bias=None, eps=1e-5):
    given = batch.folded(0, input, 1), num_groups * batch.size, batch.folded(2, weight), batch.folded(3, bias)
    return batch.parted(batch.operator(*given, eps), 1)


def group_norm_gradients(batch: Batch, grad, input, num_groups, weight, bias, mean, variance, eps, output_mask):
    grad, input = batch.folded(0, grad, 1), batch.folded(1, input, 1)
    vectors = batch.folded(3, weight), batch.folded(4, bias)
    statistics = batch.folded(5, mean, 1), batch.folded(6, variance, 1)
    found = batch.operator(grad, input, num_groups * batch.size, *vectors, *statistics, eps, output_mask)
    return _needed(batch, found, output_mask)


def batch_norm(batch: Batch, input, *others):
    *vectors, eps = others
    folded = [batch.folded(1 + i, each) for i, each in enumerate(vectors)]
    return batch.parted(batch.operator(batch.folded(0, input, 1), *folded, eps), 1)


def batch_norm_training(batch: Batch, input, weight, bias, eps):
    output, *statistics = batch.operator(batch.folded(0, input, 1), batch.folded(1, weight), batch.folded(2, bias), eps)
    return batch.parted(output, 1), *map(batch.parted, statistics)


def batch_norm_gradients(batch: Batch, grad, input, weight, bias, mean, variance, eps, training, output_mask):
    vectors = (batch.folded(2 + i, each) for i, each in enumerate((weight, bias, mean, variance)))
    images = batch.folded(0, grad, 1), batch.folded(1, input, 1)
    return _needed(batch, batch.operator(*images, *vectors, eps, training, output_mask), output_mask)


def _needed(batch: Batch, found, output_mask) -> tuple:
    return tuple(
        batch.parted(each, int(i == 0)) if is_needed else batch.unneeded(i)
        for i, (each, is_needed) in enumerate(zip(found, output_mask))
    )
