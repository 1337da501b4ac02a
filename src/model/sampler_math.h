// model/sampler_math.h
// exp, log and random numbers whose bits are the same on every machine.
//
// The C library picks variants with and without FMA by CPU, which moves the last bit and, once in a while, a sampled
// token. These use additions, multiplications and divisions in a written order only, so equal seeds give equal text
// everywhere. Accurate to a few units in the last place, which the tests hold against std::.
//
// Thread rule: pure functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace kvasir::model {

// e^x for x <= 700; below -700 it stays at e^-700, which is nothing beside any probability.
inline double Exp(double x) {
  x = std::max(x, -700.0);
  // x = n ln2 + r, |r| <= ln2 / 2. Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits, without a
  // branch, so that compilers can turn loops over this into vector code.
  constexpr double kRound = 0x1.8p52;
  const double shifted = x * 0x1.71547652b82fep+0 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * 0x1.62e42fefa3800p-1) - n * 0x1.ef35793c76730p-45;
  // The Taylor series to r^13 / 13!; the next term is below 2^-57.
  double sum = 1.0 / 6227020800.0;
  constexpr double kInverseFactorials[] = {1.0 / 479001600.0,
                                           1.0 / 39916800.0,
                                           1.0 / 3628800.0,
                                           1.0 / 362880.0,
                                           1.0 / 40320.0,
                                           1.0 / 5040.0,
                                           1.0 / 720.0,
                                           1.0 / 120.0,
                                           1.0 / 24.0,
                                           1.0 / 6.0,
                                           0.5,
                                           1.0,
                                           1.0};
  for (const double term : kInverseFactorials) sum = sum * r + term;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(sum) + (std::bit_cast<uint64_t>(shifted) << 52));
}

// Natural logarithm. REQUIRES: x is positive, finite and not subnormal.
inline double Log(double x) {
  // x = 2^e m with m in [1/sqrt2, sqrt2); log m = 2 atanh((m - 1) / (m + 1)).
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m >= 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 3; k -= 2) sum = (sum + 1.0 / k) * s2;
  const double e = static_cast<double>(exponent);
  return e * 0x1.62e42fefa3800p-1 + (e * 0x1.ef35793c76730p-45 + 2 * (s + s * sum));
}

// base^x for a positive base.
inline double Power(double base, double x) {
  return Exp(std::min(x * Log(base), 700.0));
}

// A number in [0, 1) for draw `stream` of the `index`-th token of a request: a hash of its place, not a state that is
// passed on. So what one stage draws never moves what another gets, and a request can go on at any token. The mixer is
// SplitMix64's (Steele, Lea, Flood, OOPSLA 2014).
inline double UniformAt(uint64_t seed, uint64_t index, uint64_t stream) {
  const auto mix = [](uint64_t z) {
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  };
  return static_cast<double>(mix(mix(mix(seed) ^ index) ^ stream) >> 11) * 0x1p-53;
}

}  // namespace kvasir::model
