"""Functions of PyTorch that kernelgen describes."""

import torch
from torch import Tensor
from torch.nn.functional import silu


def reads_the_second_first(x, y):
    return x - y.exp()


def swapped(x, y):
    return y - x.exp()


def leaves_one_out(x, y, z):
    return x + z


def leaves_the_last_out(x, y):
    return x.exp()


def scaled(x, alpha=2.0):
    return x * alpha


def scaled_integers(x, k):
    return x * k


def of_every_kind(x, y, /, alpha, *, z, flag=False, mode="none", axis=(-1,), eps=1e-6):
    total = (x - y) * alpha + (z.exp() if flag else -z)
    return total.sum(axis) + eps


def a_number_between(x, k, y):
    return x * k - y


def number_unused(x, p):
    return x.exp()


def by_name(*, b, a):
    return a - b.exp()


def without_a_mask(x, mask=None):
    return x.exp() if mask is None else x * mask


def with_a_dtype(x, dtype=torch.float16):
    return x.to(dtype) * 2


def reserved(input, max, torch, tl, device, out, x_ptr, blocks):
    return input - max.exp() + torch - tl * device - out + x_ptr * blocks


def triton(ValueError, triton, min, tuple, range):  # noqa: N803
    return ValueError - triton.exp() + min * tuple - range


def twice(x):
    return x + x * x


def selfish(self, x):
    return x - self.exp()


def not_ascii(größe, maß):
    return größe - maß.exp()


def with_underscores(_x, __y):
    return _x - __y.exp()


def open_number(x, alpha):
    return x * alpha - alpha


def its_own_symbol(n, x):
    return x - n


def on_its_own_copy(x, y):
    z = x.clone()
    z.add_(y).mul_(2)
    return z


def on_its_input(x):
    x.add_(1)
    return x * 2


def transposed(x, y):
    return x.t() + y


def nhwc_to_nchw(x):
    return x.permute(0, 3, 1, 2) / 255.0


def channels_last(x):
    return x.to(memory_format=torch.channels_last) * 2


def views(x, y):
    return x.t() * 2, (y - x).permute(1, 0), x.sum(0).unsqueeze(-1)


def a_view(x):
    return x.t()


def not_a_view(x):
    return x * 1.5


def expanded(x):
    return x.expand(4, -1)


def flipped(x):
    return x.flip(0) + 1


def itself(x):
    return x


def itself_and_another(x, y):
    return x, y - x


def one_result_twice(x):
    y = x.exp()
    return y, y


def a_list(x):
    return [x + 1, x * 2]


def sliced(x, y):
    return y[2:5].t() - x.t()


def gathered(x, i):
    return x[i]


def halves(x):
    a, b = x.chunk(2, -1)
    return silu(a) * b


def a_dict(x):
    return {"a": x + 1, "b": x * 2}


def nested(x):
    return x + 1, (x * 2, x * 3)


def alone_in_a_tuple(x):
    return (x + 1,)


def and_nothing(x):
    return x + 1, None


def any_number(*xs):
    return xs[0] + 1


def any_names(x, **more):
    return x + 1


def of_a_size(x):
    return x / x.shape[0]


def of_a_tensor_within(x):
    return x * torch.tensor([1.0, 2.0])


def by_a_function(x, how=torch.relu):
    return how(x)


def of_a_default(x=torch.relu):
    return x + 1


class Weighted(torch.nn.Module):
    """Its weights are no part of its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(3, 4).t())
        self.b = torch.nn.Parameter(torch.randn(3))
        self.unused = torch.nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor, y: Tensor, scale: float = 0.5) -> Tensor:
        return (self.b - x * scale) * self.w + 0 * y
