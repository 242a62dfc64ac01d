"""Initial values of parameters, by the formula that `crates/model/src/initial.rs` documents.

Written from the formula, not from the code, so that the two check each other. Only additions, products, quotients,
square roots and exact steps are used, one operation of torch each: the results are equal bit for bit on every machine.

Words are 64-bit integers with a sign, because torch computes with no others: sums and products wrap alike.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

INCREMENT = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


def signed(word: int) -> int:
    """The same 64 bits as a number with a sign."""
    return (word + (1 << 63)) % (1 << 64) - (1 << 63)


STEP = signed(INCREMENT)


def shifted(word: Tensor, bits: int) -> Tensor:
    """To the right, zeros from the left."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def mix(word: Tensor) -> Tensor:
    """SplitMix64's finaliser of 64-bit words."""
    word = (word ^ shifted(word, 30)) * signed(0xBF58476D1CE4E5B9)
    word = (word ^ shifted(word, 27)) * signed(0x94D049BB133111EB)
    return word ^ shifted(word, 31)


def word_of(value: int) -> Tensor:
    """One 64-bit word, as a tensor."""
    return torch.tensor([signed(value & WORD)], dtype=torch.int64)


def fnv1a(text: str) -> int:
    """64-bit FNV-1a of the text's UTF-8 bytes."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & WORD
    return value


def ln(x: Tensor) -> Tensor:
    """Natural logarithm of numbers in (0, 1/2] by a series: libraries differ in their last bit."""
    m, exponent = torch.frexp(x)  # x = m 2^exponent with m in [1/2, 1)
    m, exponent = 2.0 * m, exponent - 1
    large = m >= math.sqrt(2.0)
    m, exponent = torch.where(large, 0.5 * m, m), torch.where(large, exponent + 1, exponent)
    z = (m - 1.0) / (m + 1.0)
    square = z * z
    total = torch.zeros_like(x)
    for term in reversed(range(10)):
        total = total * square + 1.0 / (2 * term + 1)
    return exponent.double() * math.log(2.0) + 2.0 * z * total


def central(q: Tensor) -> Tensor:
    """PPND7 for |q| <= 0.425."""
    r = 0.180625 - q * q
    above = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179
    below = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0
    return q * above / below


def square_root(x: Tensor) -> Tensor:
    """Rounded right, of numbers far from the ends of the range: torch asks MKL, which on some processors is a bit off.
    The exact remainder of torch's root, by Dekker's product of two halves, corrects it.
    """
    root = torch.sqrt(x)
    scaled = 134217729.0 * root  # 2^27 + 1
    high = scaled - (scaled - root)
    low = root - high
    square = root * root
    beyond = ((high * high - square) + 2.0 * high * low) + low * low
    return root + ((x - square) - beyond) / (2.0 * root)


def tail(q: Tensor) -> Tensor:
    """PPND7 for the rest of (-1/2, 1/2)."""
    root = square_root(-ln(0.5 - q.abs()))
    r = root - 1.6
    above = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
    near = above / ((0.12021132975 * r + 0.73700164250) * r + 1.0)
    r = root - 5.0
    above = ((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150
    far = above / ((0.012258202635 * r + 0.24197894225) * r + 1.0)
    return torch.copysign(torch.where(root <= 5.0, near, far), q)


def inverse_normal(q: Tensor) -> Tensor:
    """Wichura's PPND7 at 1/2 + q (algorithm AS 241)."""
    values = central(q)
    outside = q.abs() > 0.425
    values[outside] = tail(q[outside])
    return values


def normals(name: str, seed: int, first: int, count: int, place: torch.device | None = None) -> Tensor:
    """Standard normal numbers `first..first + count` of the parameter of this name, in f64, computed on this device."""
    key = mix(word_of(fnv1a(name)) ^ mix(word_of(seed + INCREMENT))).to(place)
    index = torch.arange(first + 1, first + 1 + count, dtype=torch.int64, device=place)
    word = mix(key + index * STEP)
    m = shifted(word, 12).double()  # below 2^52: exact
    return inverse_normal((2.0 * m + 1.0) * 2.0**-53 - 0.5)
