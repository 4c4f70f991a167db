// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/devices.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "support/no_host.h"
#include "support/scoped_env.h"
#include "support/support.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::ScopedEnv;

TEST(GlooDevices, AnInterfaceHasAnAddress) {
  EXPECT_EQ(gloo_device_of_interface("lo").address, "127.0.0.1");
}

TEST(GlooDevices, AnInterfaceThatIsNotThereIsNamedWithThoseThatAre) {
  const auto text =
      message_of<UsageError>([] { gloo_device_of_interface("none0"); });
  EXPECT_THAT(text, HasSubstr("'none0'"));
  EXPECT_THAT(text, HasSubstr("there are: "));
  EXPECT_THAT(text, HasSubstr("lo"));
}

TEST(GlooDevices, AHostMustBeThisOne) {
  EXPECT_EQ(gloo_device_of_host("127.0.0.1").address, "127.0.0.1");
  EXPECT_EQ(gloo_device_of_host("localhost").address.empty(), false);
  EXPECT_THAT(message_of<UsageError>([] { gloo_device_of_host("192.0.2.7"); }),
              HasSubstr("no address of this host"));
  EXPECT_THAT(
      message_of<UsageError>([] { gloo_device_of_host(testing::kNoHost); }),
      HasSubstr(testing::kNoHost));
}

TEST(GlooDevices, TheProgramComesBeforeTheEnvironment) {
  const ScopedEnv ours("LOCKSTEP_SOCKET_IFNAME", "none0");
  GlooOptions options;
  options.devices = {gloo_device_of_host("127.0.0.1")};
  EXPECT_EQ(detail::chosen_devices(options).size(), 1U);
}

TEST(GlooDevices, TheEnvironmentNamesSeveral) {
  const ScopedEnv theirs("GLOO_SOCKET_IFNAME", "none0");
  const ScopedEnv ours("LOCKSTEP_SOCKET_IFNAME", "lo,lo");
  const auto devices = detail::chosen_devices({});
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[1].address, "127.0.0.1");
}

TEST(GlooDevices, GloosOwnVariableIsUnderstood) {
  const ScopedEnv theirs("GLOO_SOCKET_IFNAME", "lo");
  EXPECT_EQ(detail::chosen_devices({}).front().address, "127.0.0.1");
}

TEST(GlooDevices, ThereIsAlwaysADefault) {
  EXPECT_FALSE(default_gloo_device().address.empty());
}

}  // namespace
}  // namespace lockstep
