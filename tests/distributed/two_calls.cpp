// SPDX-License-Identifier: Apache-2.0
#include "two_calls.h"

namespace attile::test {

std::string name_of(const testing::TestParamInfo<Kind> &given) {
    constexpr const char *kNames[] = {"threads", "callbacks", "bare_callbacks"};
    return kNames[static_cast<int>(given.param)];
}

RanksOptions OfEachKind::ranks(int count, double timeout, MailOptions mail) {
    RanksOptions options;
    options.ranks = count;
    options.timeout = timeout;
    if (GetParam() != Kind::kThreads) {
        mail.give_up = mail.collectives = GetParam() == Kind::kCallbacks;
        mail_ = std::make_unique<Mail>(count, mail);
        options.mail = mail_.get();
    }
    return options;
}

}  // namespace attile::test
