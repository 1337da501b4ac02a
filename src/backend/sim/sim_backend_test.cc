#include "backend/sim/sim_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backend/factory.h"

namespace kvasir::backend::sim {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class SimBackendTest : public testing::Test {
 protected:
  SimBackendTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto created =
        CreateSimBackend({.cpu = {.level = "ref", .threads = 1}, .device_bytes = kMiB, .link_bytes_per_second = 1e9});
    KVASIR_CHECK(created.ok());
    owner_ = std::move(created).value();
    sim_ = static_cast<SimBackend*>(owner_.get());
  }

  Buffer Device(size_t bytes) { return std::move(sim_->Allocate(MemoryKind::kDevice, bytes)).value(); }
  Buffer Host(size_t bytes) { return std::move(sim_->Allocate(MemoryKind::kHost, bytes)).value(); }

  Event CopyOne(CopyDirection direction, const Buffer& to, const Buffer& from, size_t bytes) {
    const CopyItem item{.to = to.address(), .from = from.address(), .bytes = bytes};
    return sim_->Copy(direction, {&item, 1});
  }

  float Peek(const Buffer& buffer, size_t index) const {
    float value;
    sim_->Peek(buffer.as<float>() + index, &value, sizeof(value));
    return value;
  }

  std::unique_ptr<Backend> owner_;
  SimBackend* sim_;
};

using SimBackendDeathTest = SimBackendTest;

TEST_F(SimBackendTest, ProfileSaysThatItIsADevice) {
  EXPECT_EQ(sim_->profile().kind, "sim");
  EXPECT_EQ(sim_->profile().level, "ref");
  EXPECT_EQ(sim_->profile().numerics.substr(0, 9), "sim/ref/f");
  EXPECT_FALSE(sim_->profile().device_is_host);
  EXPECT_EQ(sim_->profile().device_bytes, kMiB);
}

TEST_F(SimBackendDeathTest, DeviceMemoryCannotBeDereferenced) {
  Buffer buffer = Device(64);
  EXPECT_DEATH({ *static_cast<volatile float*>(buffer.as<float>()) = 1; }, "");
  EXPECT_DEATH({ static_cast<void>(*static_cast<volatile float*>(buffer.as<float>())); }, "");
}

TEST_F(SimBackendTest, MemoryEndsAtTheExactByte) {
  Buffer most = Device(kMiB - 64);
  EXPECT_EQ(sim_->used_bytes(), kMiB - 64);
  Buffer last = Device(64);
  const Result<Buffer> more = sim_->Allocate(MemoryKind::kDevice, 1);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_NE(more.error().message().find("1.00 MiB"), std::string::npos) << more.error().message();
  most = Buffer();
  EXPECT_EQ(sim_->used_bytes(), 64u);
  EXPECT_TRUE(sim_->Allocate(MemoryKind::kDevice, kMiB - 64).ok());
}

TEST_F(SimBackendTest, ABufferNeedsOneHole) {
  std::vector<Buffer> quarters;
  for (int i = 0; i < 4; ++i) quarters.push_back(Device(kMiB / 4));
  quarters[0] = Buffer();
  quarters[2] = Buffer();
  EXPECT_FALSE(sim_->Allocate(MemoryKind::kDevice, kMiB / 2).ok());
  std::byte* first = quarters[3].address() - 3 * kMiB / 4;
  EXPECT_EQ(Device(kMiB / 4).address(), first);
}

TEST_F(SimBackendTest, WeightsCountAgainstTheBound) {
  std::vector<float> values(64 * 1024, 0.5f);
  const MatrixSource source{
      .type = TensorType::kF32, .rows = 64, .cols = 1024, .bytes = reinterpret_cast<const std::byte*>(values.data())};
  {
    auto matrix = sim_->LoadMatrix(source);
    ASSERT_TRUE(matrix.ok());
    EXPECT_EQ(sim_->used_bytes(), (*matrix)->bytes());
    EXPECT_GE(sim_->used_bytes(), values.size() * sizeof(float));
    EXPECT_FALSE(sim_->Allocate(MemoryKind::kDevice, kMiB - 64 * 1024).ok());
  }
  EXPECT_EQ(sim_->used_bytes(), 0u);
  Buffer buffer = Device(kMiB - 64 * 1024);
  const auto matrix = sim_->LoadMatrix(source);
  ASSERT_FALSE(matrix.ok());
  EXPECT_EQ(matrix.error().code(), ErrorCode::kResourceExhausted);
}

TEST_F(SimBackendTest, FreshMemoryIsZeroEvenWhereOldMemoryWas) {
  {
    Buffer old = Device(256);
    const float seven = 7;
    sim_->Poke(old.address(), &seven, sizeof(seven));
  }
  Buffer fresh = Device(256);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(Peek(fresh, i), 0.0f);
}

TEST_F(SimBackendTest, CopiedBytesArePoisonUntilWait) {
  Buffer host = Host(64), device = Device(64), other = Device(64), back = Host(64);
  host.as<float>()[3] = 5;
  const Event up = CopyOne(CopyDirection::kHostToDevice, device, host, 64);
  EXPECT_TRUE(std::isnan(Peek(device, 3)));
  sim_->Wait(up);
  EXPECT_EQ(Peek(device, 3), 5.0f);

  const Event across = CopyOne(CopyDirection::kDeviceToDevice, other, device, 64);
  EXPECT_TRUE(std::isnan(Peek(other, 3)));
  sim_->Wait(across);
  EXPECT_EQ(Peek(other, 3), 5.0f);

  const Event down = CopyOne(CopyDirection::kDeviceToHost, back, other, 64);
  EXPECT_TRUE(std::isnan(back.as<float>()[3]));
  sim_->Wait(down);
  EXPECT_EQ(back.as<float>()[3], 5.0f);
  sim_->Wait(down);  // a second time is nothing
}

TEST_F(SimBackendDeathTest, QueuesAreNotOrderedAmongEachOther) {
  Buffer host = Host(64), device = Device(64), back = Host(64);
  host.as<float>()[0] = 1;
  EXPECT_DEATH(
      {
        CopyOne(CopyDirection::kDeviceToHost, back, device, 64);
        CopyOne(CopyDirection::kHostToDevice, device, host, 64);
        sim_->Synchronize();
      },
      "changed in flight");
}

TEST_F(SimBackendTest, WaitingForACopyFinishesTheEarlierOnesOfItsQueueOnly) {
  Buffer host = Host(64), a = Device(64), b = Device(64), c = Device(64), down = Host(64);
  CopyOne(CopyDirection::kHostToDevice, a, host, 64);
  CopyOne(CopyDirection::kDeviceToHost, down, c, 64);
  const Event second = CopyOne(CopyDirection::kHostToDevice, b, host, 64);
  sim_->Wait(second);
  EXPECT_EQ(Peek(a, 0), 0.0f);
  EXPECT_EQ(Peek(b, 0), 0.0f);
  EXPECT_TRUE(std::isnan(down.as<float>()[0]));
  sim_->Synchronize();
  EXPECT_EQ(down.as<float>()[0], 0.0f);
}

TEST_F(SimBackendTest, ALaterCopyOfAQueueMayReadWhatAnEarlierOneWrites) {
  Buffer host = Host(64), a = Device(64), b = Device(64), c = Device(64);
  host.as<float>()[0] = 9;
  sim_->Wait(CopyOne(CopyDirection::kHostToDevice, a, host, 64));
  CopyOne(CopyDirection::kDeviceToDevice, b, a, 64);
  sim_->Wait(CopyOne(CopyDirection::kDeviceToDevice, c, b, 64));
  EXPECT_EQ(Peek(c, 0), 9.0f);
}

TEST_F(SimBackendDeathTest, ASourceMustNotChangeInFlight) {
  Buffer host = Host(64), device = Device(64);
  EXPECT_DEATH(
      {
        const Event event = CopyOne(CopyDirection::kHostToDevice, device, host, 64);
        host.as<float>()[0] = 1;
        sim_->Wait(event);
      },
      "source of copy 1 changed in flight");
}

TEST_F(SimBackendDeathTest, MemoryMustNotBeFreedInFlight) {
  EXPECT_DEATH(
      {
        Buffer host = Host(64);
        Buffer device = Device(64);
        CopyOne(CopyDirection::kHostToDevice, device, host, 64);
        device = Buffer();
      },
      "freed while copy 1 is in flight");
}

TEST_F(SimBackendDeathTest, OperationsTakeDeviceMemoryOnly) {
  Buffer host = Host(64), device = Device(64);
  const NormArgs args{.x = host.as<float>(), .rows = 1, .cols = 16, .out = {.f32 = device.as<float>()}};
  EXPECT_DEATH(sim_->Norm(args), "is not device memory");
  EXPECT_DEATH(CopyOne(CopyDirection::kDeviceToHost, host, host, 64), "do not fit its direction");
}

TEST_F(SimBackendTest, CopiesTakeTimeOnTheVirtualClock) {
  Buffer host = Host(100'000), device = Device(100'000), back = Host(100'000);
  const Event first = CopyOne(CopyDirection::kHostToDevice, device, host, 100'000);  // 100 us + latency
  const Event second = CopyOne(CopyDirection::kHostToDevice, device, host, 50'000);  // 50 us + latency, after the first
  EXPECT_EQ(sim_->now_seconds(), 0);
  sim_->Wait(first);
  EXPECT_NEAR(sim_->now_seconds(), 110e-6, 1e-9);
  sim_->AdvanceClock(1e-3);
  sim_->Wait(second);  // long done
  EXPECT_NEAR(sim_->now_seconds(), 1.11e-3, 1e-9);
  sim_->Wait(CopyOne(CopyDirection::kDeviceToHost, back, device, 100'000));  // starts now
  EXPECT_NEAR(sim_->now_seconds(), 1.22e-3, 1e-9);

  const LinkStatistics& up = sim_->statistics(CopyDirection::kHostToDevice);
  EXPECT_EQ(up.copies, 2);
  EXPECT_EQ(up.bytes, 150'000);
  EXPECT_NEAR(up.busy_seconds, 170e-6, 1e-9);
  EXPECT_EQ(sim_->statistics(CopyDirection::kDeviceToHost).bytes, 100'000);
  EXPECT_EQ(sim_->statistics(CopyDirection::kDeviceToDevice).bytes, 0);
}

}  // namespace
}  // namespace kvasir::backend::sim
