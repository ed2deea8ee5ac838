"""``kl_divergence`` of distributions of the user's: the function that is registered for them is converted."""

import torch
import torch.distributions as D

from tests.oracle import agree


class Own(D.Normal):
    pass


class Other(D.Distribution):
    support, arg_constraints = D.constraints.real, {}

    def __init__(self):
        super().__init__(validate_args=False)


@D.register_kl(Own, Own)
def _of_own(p, q):
    if p.scale.sum() > q.scale.sum():
        return ((p.loc - q.loc) ** 2 + p.scale).sum(-1)
    scale = p.scale
    while scale.sum() < 3:
        scale = scale + q.scale
    return scale.sum(-1) * 2


def of_own(x, y):
    p = Own(x, x.exp()) if x.sum() > 0 else Own(y, x.exp() + 1)
    return D.kl_divergence(p, Own(y, y.exp()))


def of_those_inside(x, y):
    return D.kl_divergence(D.Independent(Own(x, x.exp()), 0), D.Independent(Own(y, y.exp()), 0))


def of_one_of_two_classes(x, y):
    p = Own(x, x.exp()) if x.sum() > 0 else D.Normal(x, x.exp() + 1)
    return D.kl_divergence(p, Own(y, y.exp())).sum()


def of_none(x, y):
    try:
        return D.kl_divergence(Own(x, x.exp()), Other()) if x.sum() > 0 else x * 2
    except NotImplementedError as error:
        return str(error)


CALLS = [
    tuple(torch.tensor(row, requires_grad=True) for row in rows)
    for rows in (([1.0, 2], [0.0, 1]), ([-1.0, 2], [0.0, 0.1]), ([-1.0, -2], [0.0, 0.1]), ([0.1, 0.2], [0.2, 0.3]))
]


def test_what_is_registered_is_converted():
    for function in (of_own, of_those_inside, of_one_of_two_classes, of_none):
        agree(function, CALLS)
