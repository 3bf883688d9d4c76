"""The pretend device refuses what a GPU refuses, counts what goes to and fro, and rounds as the CPU."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import pretend
from pretend import device_counter

TWO_DEVICES = "same device"


@pytest.fixture
def device():
    with pretend.device() as device:
        yield device


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3)
        )
        self.head = nn.Linear(8, 5)

    def forward(self, images):
        return self.head(F.max_pool2d(self.features(images), 2).mean((2, 3)))


def fresh():
    torch.manual_seed(0)
    return Net()


def batches(count=4):
    draws = torch.Generator().manual_seed(1)
    return [
        (torch.randn(6, 3, 12, 12, generator=draws), torch.randint(5, (6,), generator=draws))
        for _ in range(count)
    ]


def train(net, adam, given):
    for images, labels in given:
        loss = F.cross_entropy(net(images), labels)
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()


def values(net):
    return {name: value.detach().cpu() for name, value in net.state_dict().items()}


def assert_same(a, b):
    torch.testing.assert_close(values(a), values(b), rtol=0, atol=0)


def test_a_network_learns_to_the_bit_what_it_learns_on_the_cpu_without_asking_the_device(device):
    there, here = fresh().to(device), fresh()
    assert {p.device for p in there.state_dict().values()} == {torch.device("pretend", 0)}
    assert not any(p.is_cpu or p.is_cuda for p in there.parameters())
    train(here, torch.optim.Adam(here.parameters(), 1e-2, fused=True), batches())
    sent = [(images.to(device, non_blocking=True), labels.to(device)) for images, labels in batches()]
    adam = torch.optim.Adam(there.parameters(), 1e-2, fused=True)
    device_counter.reset()
    train(there, adam, sent)
    assert (device_counter.to_host, device_counter.to_device) == (0, 0), device_counter.places
    assert_same(there, here)
    assert torch.equal(there.eval()(sent[0][0]).cpu(), here.eval()(batches()[0][0]))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_optimisers_that_work_on_lists_agree_too(device, kind):
    there, here = fresh().to(device), fresh()
    train(here, kind(here.parameters(), 1e-2, foreach=True), batches(2))
    train(
        there,
        kind(there.parameters(), 1e-2, foreach=True),
        [(x.to(device), y.to(device)) for x, y in batches(2)],
    )
    assert_same(there, here)


def test_a_checkpoint_goes_to_a_file_and_back(device, tmp_path):
    sent = [(images.to(device), labels.to(device)) for images, labels in batches()]
    first = fresh().to(device)
    adam = torch.optim.Adam(first.parameters(), 1e-2, fused=True)
    train(first, adam, sent[:2])
    save_file(values(first), tmp_path / "weights.safetensors")
    moments = {
        f"{i} {key}": value.cpu()
        for i, state in adam.state_dict()["state"].items()
        for key, value in state.items()
    }
    save_file(moments, tmp_path / "adam.safetensors")
    train(first, adam, sent[2:])

    second = Net().to(device)
    second.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    again = torch.optim.Adam(second.parameters(), 1e-2, fused=True)
    loaded, known = load_file(tmp_path / "adam.safetensors"), again.state_dict()
    for name, value in loaded.items():
        index, key = name.split()
        known["state"].setdefault(int(index), {})[key] = value
    again.load_state_dict(known)  # moves all of it, `step` too, for the fused form
    train(second, again, sent[2:])
    assert_same(first, second)


@pytest.mark.parametrize("key", ["step", "exp_avg"])
def test_adam_refuses_a_state_that_stayed_on_the_cpu(device, key):
    net = fresh().to(device)
    adam = torch.optim.Adam(net.parameters(), fused=True)
    sent = [(images.to(device), labels.to(device)) for images, labels in batches(1)]
    train(net, adam, sent)
    assert all(state["step"].device.type == device.type for state in adam.state.values())
    for state in adam.state.values():
        state[key] = state[key].cpu()
    with pytest.raises(RuntimeError, match=r"device"):
        train(net, adam, sent)


@pytest.mark.parametrize(
    "mix",
    [
        lambda there, here, index: there + here,
        lambda there, here, index: here.mul_(there),
        lambda there, here, index: there.sum() + here,
        lambda there, here, index: here.sum().add_(there.sum()),
        lambda there, here, index: there @ here,
        lambda there, here, index: F.linear(there, here),
        lambda there, here, index: torch.cat([there, here]),
        lambda there, here, index: torch.stack([there, here]),
        lambda there, here, index: torch.where(there > 0, there, here),
        lambda there, here, index: torch.where(here > 0, there, there),
        lambda there, here, index: there.lerp(there, here),
        lambda there, here, index: there.gather(0, index[:, None]),
        lambda there, here, index: there.index_select(0, index),
        lambda there, here, index: there.index_add_(0, index, there[:2]),
        lambda there, here, index: there.scatter_(0, index[:, None], 1.0),
        lambda there, here, index: there.scatter_add_(0, index[:, None], there),
        lambda there, here, index: there.index_put_((index,), here[:2]),
        lambda there, here, index: F.cross_entropy(there, index),
        lambda there, here, index: torch._foreach_add([there], [here]),
        lambda there, here, index: torch.equal(there, here),
        lambda there, here, index: torch.mul(there, there, out=here),
    ],
)
def test_two_devices_do_not_mix(device, mix):
    here = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match=TWO_DEVICES):
        mix(here.to(device), here, torch.tensor([0, 1]))


def test_what_a_gpu_takes_from_the_cpu(device):
    there, one, index = torch.arange(4.0, device=device), torch.tensor(2.0), torch.tensor([1, 3])
    assert (there * one).tolist() == (one * there).tolist() == (there * 2).tolist() == [0, 2, 4, 6]
    assert there[index].tolist() == there[index.numpy()].tolist() == there[[1, 3]].tolist() == [1, 3]
    there[index] = one
    there[0] = torch.tensor(7.0)
    there[2:] = torch.tensor([8.0, 9.0])
    assert there.tolist() == [7, 2, 8, 9]
    assert there.masked_fill(there > 7, one).tolist() == [7, 2, 2, 2]
    with pytest.raises(RuntimeError, match="indexed tensor"):
        torch.ones(4)[index.to(device)]


def test_tensors_are_made_on_the_device(device):
    drawn = torch.rand(2, device=device)
    made = [
        torch.empty(3, device=device),
        *(torch.zeros(2, device=device), torch.ones(2, device=device), torch.full((2,), 3, device=device)),
        *(torch.arange(3, device=device), torch.eye(2, device=device), torch.randperm(3, device=device)),
        *(torch.zeros_like(drawn), drawn.new_zeros(3), drawn.new_tensor([1.0]), torch.empty_like(drawn)),
        *(torch.tensor([1, 2], device=device), torch.as_tensor(np.arange(2), device=device)),
        torch.from_numpy(np.ones(2)).to(device, non_blocking=True),
        torch.ones(2).pin_memory().to(device, non_blocking=True),
        *(torch.ones(2).new_ones(2, device=device), nn.Parameter(drawn), copy.deepcopy(nn.Parameter(drawn))),
    ]
    assert {tensor.device for tensor in made} == {drawn.device}
    assert torch.zeros_like(drawn, device="cpu").is_cpu
    assert made[-1].requires_grad
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(2, device=device, generator=torch.Generator())


def test_transfers_are_counted_with_their_places(device):
    there = torch.ones(3, device=device)
    for ask in (
        lambda: there.sum().item(),
        lambda: float(there[0]),
        lambda: bool(there.sum() > 1),
        lambda: there.cpu(),
        lambda: there.to("cpu"),
        lambda: there.tolist(),
        lambda: torch.zeros(3).copy_(there),
        lambda: there[there > 0],
        lambda: there.nonzero(),
        lambda: torch.equal(there, there),
    ):
        device_counter.reset()
        ask()
        assert (device_counter.to_host, device_counter.to_device) == (1, 0)
        assert "tests/test_pretend.py" in next(iter(device_counter.places))
    for send in (
        lambda: torch.ones(3).to(device),
        lambda: torch.tensor([1.0, 2.0], device=device),
        lambda: there.copy_(torch.ones(3)),
        lambda: there[torch.tensor([0, 1])],
    ):
        device_counter.reset()
        send()
        assert (device_counter.to_host, device_counter.to_device) == (0, 1)
    device_counter.reset()
    torch.zeros(3, device=device).add_(there, alpha=2).to(device).double().view(3, 1).clone()
    assert not device_counter.to_host + device_counter.to_device


def test_views_and_copies_share_what_they_share_elsewhere(device):
    there = torch.zeros(2, 3, device=device)
    there[0, 1:].add_(1)
    there.view(-1)[3:] = 5
    there.detach().t()[0, 0] = 7
    assert there.tolist() == [[7, 1, 1], [5, 5, 5]]
    weight = nn.Parameter(there)
    other = copy.deepcopy(weight)
    with torch.no_grad():
        other.zero_()
    assert weight.sum().item() == 24
    weight.data = torch.ones(4, device=device)
    assert (weight * 2).tolist() == [2] * 4
    with pytest.raises(TypeError, match="numpy"):
        np.asarray(weight)


def test_modules_are_copied_called_with_other_weights_and_brought_back(device):
    net = fresh().to(device).eval()
    images = batches(1)[0][0].to(device)
    wanted = net(images).tolist()
    moved = {name: value * 0 for name, value in net.named_parameters()}
    assert torch.func.functional_call(net, moved, (images,)).abs().sum().item() == 0
    assert copy.deepcopy(net)(images).tolist() == wanted
    with torch.autocast(device.type, dtype=torch.bfloat16), torch.inference_mode():
        assert net(images).tolist() == wanted
    assert net.cpu()(images.cpu()).tolist() == wanted


def test_a_device_without_float64():
    with pretend.device(float64=False) as device:
        single = torch.ones(2, device=device)
        for ask in (
            lambda: single.double(),
            lambda: torch.zeros(2, dtype=torch.float64, device=device),
            lambda: torch.from_numpy(np.ones(2)).to(device),
            lambda: torch.tensor(np.ones(2), device=device),
        ):
            with pytest.raises(TypeError, match="float64"):
                ask()
        assert single.cpu().double().dtype == torch.float64
    with pretend.device() as device:
        assert torch.ones(2, device=device).double().dtype == torch.float64
    assert not torch.accelerator.is_available()
