"""Initial values of parameters and synthetic inputs, by the formulas that `crates/model/src/initial.rs` documents.

Written from the formula, not from the code, so that the two check each other. Only additions, products, quotients,
square roots and exact steps are used: the results are equal bit for bit on every machine.
"""

from __future__ import annotations

import numpy as np

INCREMENT = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


def mix(word: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser of 64-bit words."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def fnv1a(text: str) -> int:
    """64-bit FNV-1a of the text's UTF-8 bytes."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & WORD
    return value


def word_of(value: int) -> np.ndarray:
    """One 64-bit word as an array, whose arithmetic wraps without a warning."""
    return np.array([value & WORD], dtype=np.uint64)


def ln(x: np.ndarray) -> np.ndarray:
    """Natural logarithm of numbers in (0, 1/2] by a series: libraries differ in their last bit."""
    m, exponent = np.frexp(x)  # x = m 2^exponent with m in [1/2, 1)
    m, exponent = 2.0 * m, exponent - 1
    large = m >= np.sqrt(2.0)
    m, exponent = np.where(large, 0.5 * m, m), np.where(large, exponent + 1, exponent)
    z = (m - 1.0) / (m + 1.0)
    square = z * z
    total = np.zeros_like(x)
    for term in reversed(range(10)):
        total = total * square + 1.0 / (2 * term + 1)
    return exponent * np.log(2.0) + 2.0 * z * total


def inverse_normal(q: np.ndarray) -> np.ndarray:
    """Wichura's PPND7 at 1/2 + q (algorithm AS 241)."""
    r = 0.180625 - q * q
    above = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179
    below = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0
    central = q * above / below

    root = np.sqrt(-ln(0.5 - np.abs(q)))
    r = root - 1.6
    above = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
    near = above / ((0.12021132975 * r + 0.73700164250) * r + 1.0)
    r = root - 5.0
    above = ((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150
    far = above / ((0.012258202635 * r + 0.24197894225) * r + 1.0)
    tail = np.copysign(np.where(root <= 5.0, near, far), q)
    return np.where(np.abs(q) <= 0.425, central, tail)


def normals(name: str, seed: int, first: int, count: int) -> np.ndarray:
    """Standard normal numbers `first..first + count` of the parameter of this name."""
    key = mix(word_of(fnv1a(name)) ^ mix(word_of(seed + INCREMENT)))
    index = np.arange(count, dtype=np.uint64) + word_of(first + 1)
    word = mix(key + index * np.uint64(INCREMENT))
    m = (word >> np.uint64(12)).astype(np.float64)  # below 2^52: exact
    return inverse_normal((2.0 * m + 1.0) * 2.0**-53 - 0.5)


def tokens(indices: range, sequence: int, vocabulary: int) -> np.ndarray:
    """`[samples, sequence + 1]` tokens: (2654435761 index + 40503 position) mod vocabulary."""
    index = np.array(indices, dtype=np.int64)[:, None]
    position = np.arange(sequence + 1, dtype=np.int64)[None, :]
    return (index * 2654435761 + position * 40503) % vocabulary


def images(indices: range, size: int) -> np.ndarray:
    """`[samples, height, width, 3]` numbers: the uppermost byte of mix(2^32 index + position) / 128 - 1, exact in f32;
    position counts the numbers of a sample, channel fastest."""
    index = np.array(indices, dtype=np.uint64)[:, None]
    position = np.arange(size * size * 3, dtype=np.uint64)[None, :]
    byte = mix((index << np.uint64(32)) + position) >> np.uint64(56)
    return (byte.astype(np.float64) / 128.0 - 1.0).reshape(len(indices), size, size, 3)


def image_classes(indices: range, classes: int) -> np.ndarray:
    """`[samples]` classes: 2654435761 index mod classes."""
    return np.array(indices, dtype=np.int64) * 2654435761 % classes
