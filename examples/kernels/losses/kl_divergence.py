"""Kullback-Leibler divergence of two rows of logits, as in distillation.

loss[i] = sum over j of p[i, j] * log(p[i, j] / q[i, j]), with p = softmax(teacher / t) and q = softmax(student / t)

Neither distribution is stored. Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(student, teacher, temperature, loss):
    return *arrange.rows(student, teacher), temperature, loss.tile(None)


def log_softmax(row):
    shifted = row - ntl.max(row)
    return shifted - ntl.log(ntl.sum(ntl.exp(shifted)))


def application(student, teacher, temperature, loss):
    log_p = log_softmax(teacher.to(ntl.float32) / temperature)
    log_q = log_softmax(student.to(ntl.float32) / temperature)
    loss = ntl.sum(ntl.exp(log_p) * (log_p - log_q))


tensors = (Tensor(2), Tensor(2), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="kl_divergence")


def kl_divergence(student, teacher, temperature=1.0):
    loss = torch.empty(student.shape[0], device=student.device)
    kernel(student, teacher, temperature, loss)
    return loss


def check(device):
    for rows, columns, t, dtype in (
        (5, 27, 1.0, torch.float32),
        (9, 3000, 2.0, torch.float16),
        (3, 2, 1, torch.bfloat16),
    ):
        student, teacher = (3 * torch.randn(2, rows, columns, device=device)).to(dtype)
        p, q = ((each.double() / t).softmax(1) for each in (teacher, student))
        yield kl_divergence(student, teacher, t), (p * (p / q).log()).sum(1)


def timed(device):
    def eager(student, teacher):
        p, q = (each.float().log_softmax(1) for each in (teacher, student))
        return F.kl_div(q, p, log_target=True, reduction="none").sum(1)

    return torch.randn(2, 4096, 16384, device=device).bfloat16().unbind(), kl_divergence, eager
