import pytest
import torch

from ninetoothed_ops.ops.operands import slow_to_read, with_padded_rows


def half(*shape):
    return torch.randn(shape).half()


@pytest.mark.parametrize("shape", [(1, 1), (3, 63), (5, 64), (2, 65), (3, 7, 129), (0, 5), (4, 0), (2, 0, 9)])
def test_copies_are_equal_and_their_rows_start_at_sectors(shape, device):
    for operand in (half(*shape).to(device), half(*shape).to(device).mT):
        copy = with_padded_rows(operand)

        assert torch.equal(copy, operand)
        assert 1 in copy.stride() or 1 in copy.shape
        assert all(stride % 64 == 0 for stride in copy.stride() if stride != 1)


def test_copies_of_strided_and_repeated_operands(device):
    base = half(40, 70).to(device)
    for operand in (base[1::2, 3::4], base[:, :1].expand(-1, 9), base[None].expand(3, -1, -1), base[5:, 1:]):
        assert torch.equal(with_padded_rows(operand), operand)


def like(*shape, dtype=torch.half):
    return torch.empty(shape, dtype=dtype, device="meta")


class TestWhichAreSlowToRead:
    def test_rows_that_start_anywhere(self):
        assert slow_to_read(like(1024, 1023), like(1023, 1024)) == (True, False)
        assert slow_to_read(like(1024, 1024), like(1024, 1023)) == (False, True)
        assert slow_to_read(like(1023, 1024).mT, like(1023, 1024)) == (False, False)
        assert slow_to_read(like(1024, 2048)[:, ::2], like(1024, 1024)) == (True, False)

    def test_memory_that_is_not_aligned(self):
        operand = half(1024 * 1024 + 1)[1:].view(1024, 1024)

        assert slow_to_read(operand, like(1024, 1024)) == (True, False)

    def test_the_second_of_two_with_rows_inside_sectors_where_it_is_read_often(self):
        assert slow_to_read(like(4104, 4104), like(4104, 4104)) == (False, True)
        assert slow_to_read(like(4, 4104, 4104), like(4, 4104, 4104)) == (False, True)
        assert slow_to_read(like(1032, 4104), like(4104, 4104)) == (False, False)
        assert slow_to_read(like(4096, 4104), like(4104, 4096)) == (False, False)
        assert slow_to_read(like(4112, 4112), like(4112, 4112)) == (False, False)
        assert slow_to_read(like(4104, 4096), like(4096, 4104)) == (False, False)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_only_halves(self, dtype):
        assert slow_to_read(like(1024, 1023, dtype=dtype), like(1023, 1024, dtype=dtype)) == (False, False)

    def test_only_where_there_is_much_to_do(self):
        assert slow_to_read(like(64, 63), like(63, 64)) == (False, False)
