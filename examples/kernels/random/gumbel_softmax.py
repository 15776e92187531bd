"""Softmax of logits with Gumbel noise.

output[i] = softmax((logits[i] - log(-log(u))) / temperature), for each row, with u uniform in (0, 1)

Its greatest element is drawn with the probabilities of softmax(logits[i]). Jang, Gu and Poole, "Categorical
Reparameterization with Gumbel-Softmax", 2016.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(logits, temperature, seed, output):
    places = logits.offsets(0) * logits.source.shape[1] + logits.offsets(1)
    drawn = ntl.maximum(ntl.rand(seed, places), 1e-7)
    noisy = (logits.to(ntl.float32) - ntl.log(-ntl.log(drawn))) / temperature
    raised = ntl.exp(noisy - ntl.max(noisy))
    output = raised / ntl.sum(raised)


tensors = (Tensor(2), Tensor(0), Tensor(0), Tensor(2))
kernel = ninetoothed.make(arrange.rows, application, tensors, kernel_name="gumbel_softmax")


def gumbel_softmax(logits, temperature, seed):
    output = torch.empty_like(logits)
    kernel(logits, temperature, seed, output)
    return output


def check(device):
    for rows, columns, dtype in ((50, 7, torch.float32), (4000, 5, torch.float32), (9, 300, torch.float16)):
        logits = torch.randn(columns, device=device).expand(rows, columns).to(dtype)
        output = gumbel_softmax(logits, 0.7, 3)
        yield output, gumbel_softmax(logits.contiguous(), 0.7, 3).double()
        yield (output.double().sum(1) - 1).abs() < 2e-3, torch.ones(rows, dtype=torch.bool, device=device)
        shares = F.one_hot(output.argmax(1), columns).double().mean(0)
        far = (shares - logits[0].double().softmax(0)).abs().max()
        yield far < 2 / rows**0.5, torch.tensor(True, device=device)


def timed(device):
    def eager(logits):
        return F.gumbel_softmax(logits, 0.7)

    return (torch.randn(4096, 8192, device=device),), lambda logits: gumbel_softmax(logits, 0.7, 3), eager
