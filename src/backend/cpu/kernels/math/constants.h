// backend/cpu/kernels/math/constants.h
// Constants of exp and tanh, one set for every level.
//
// exp(x) = 2^n exp(r) with n = round(x / ln 2) and r = x - n ln 2, |r| <= ln 2 / 2. ln 2 is split so that n * kLn2High
// is exact. exp(r) = 1 + (r + r^2 Q(r)); Q is a minimax fit of degree 4, relative error of exp 3e-9. tanh(x) is x + x^3
// T(x^2) below kTanhSmall (T of degree 4, relative error 4e-9) and 1 - 2 / (exp(2x) + 1) above, where nothing cancels.
//
// Thread rule: constants.
#pragma once

namespace kvasir::backend::cpu::math {

constexpr float kLog2E = 1.44269504f;
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;

constexpr float kQ0 = 0x1.fffffcp-2f;
constexpr float kQ1 = 0x1.555492p-3f;
constexpr float kQ2 = 0x1.5558f4p-5f;
constexpr float kQ3 = 0x1.123a20p-7f;
constexpr float kQ4 = 0x1.6a23c2p-10f;

constexpr float kT0 = -0x1.555532p-2f;
constexpr float kT1 = 0x1.110724p-3f;
constexpr float kT2 = -0x1.b83bf4p-5f;
constexpr float kT3 = 0x1.5223dep-6f;
constexpr float kT4 = -0x1.75d50ep-8f;

constexpr float kExpLow = -104.0f;  // exp is 0 below
constexpr float kExpHigh = 89.0f;   // exp is infinity above
constexpr float kTanhSmall = 0.625f;
constexpr float kTanhOne = 9.02f;  // tanh rounds to 1 above

constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding and taking it away rounds |x| < 2^22 to an integer

}  // namespace kvasir::backend::cpu::math
