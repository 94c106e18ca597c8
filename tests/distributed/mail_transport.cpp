// SPDX-License-Identifier: Apache-2.0
#include "mail_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace attile::test {

namespace {

constexpr std::size_t kMostPosts = 16;  // for each pair of ranks

}  // namespace

Mail::Box::Box(Mail *owner, int own_rank, int ranks) : mail(owner), rank(own_rank), posts(kMostPosts * static_cast<std::size_t>(ranks)) {
    for (Post &post : posts) unused.push_back(&post);
    requests.reserve(2 * static_cast<std::size_t>(ranks));
    sizes.resize(static_cast<std::size_t>(ranks));
    own.resize(sizes.size());
    places.resize(sizes.size());
}

Mail::Post *Mail::Box::take(const Post &wanted) {
    Post *post = unused.at(unused.size() - 1);
    unused.pop_back();
    *post = wanted;
    return post;
}

Mail::Mail(int ranks, const MailOptions &options)
    : ranks_(ranks), options_(options), sends_(line(ranks, 0)), receives_(line(ranks, 0)), bytes_(line(ranks, 0)), random_(options.seed) {
    for (int rank = 0; rank < ranks; ++rank) boxes_.push_back(std::make_unique<Box>(this, rank, ranks));
    for (auto *all : {&sends_, &receives_})
        for (std::vector<Post *> &posts : *all) posts.reserve(kMostPosts);
    ready_.reserve(sends_.size());
    courier_ = std::thread([this] { carry(); });
}

Mail::~Mail() {
    {
        const std::lock_guard<std::mutex> hold(lock_);
        over_ = true;
        changed_.notify_all();
    }
    courier_.join();
}

attile_comm_callbacks Mail::callbacks(int rank) {
    attile_comm_callbacks call;
    attile_comm_callbacks_init(&call, sizeof call);
    call.user = boxes_[static_cast<std::size_t>(rank)].get();
    call.send = send;
    call.receive = receive;
    call.wait = wait;
    if (options_.collectives) {
        call.all_gather = all_gather;
        call.all_to_all = all_to_all;
    }
    if (options_.give_up) call.give_up = give_up;
    return call;
}

std::int64_t Mail::bytes(int from, int to) {
    const std::lock_guard<std::mutex> hold(lock_);
    return bytes_[line(from, to)];
}

// Of all messages that both sides have posted, any may be the next to arrive.
void Mail::carry() {
    std::unique_lock<std::mutex> hold(lock_);
    while (!over_) {
        ready_.clear();
        for (std::size_t i = 0; i < sends_.size(); ++i) {
            if (!sends_[i].empty() && !receives_[i].empty()) ready_.push_back(i);
        }
        if (ready_.empty()) {
            changed_.wait(hold);
            continue;
        }
        const std::size_t at = ready_[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(ready_.size()) - 1))];
        Post &from = *sends_[at].front(), &to = *receives_[at].front();
        if (from.bytes == to.bytes) {
            std::memcpy(to.data, from.source, static_cast<std::size_t>(to.bytes));
            bytes_[at] += to.bytes;
            from.done = to.done = true;
        }
        for (auto *all : {&sends_, &receives_}) (*all)[at].erase((*all)[at].begin());
        changed_.notify_all();
        if (random_.chance(0.3)) {
            hold.unlock();
            std::this_thread::sleep_for(std::chrono::microseconds(50));
            hold.lock();
        }
    }
}

std::int32_t Mail::enter(Box &box) const {
    if (box.rank != options_.broken_rank || ++box.calls <= options_.broken_from) return 0;
    if (options_.throws) throw std::runtime_error("no stamps");
    return 5;
}

void Mail::post(Post *post) {
    const std::lock_guard<std::mutex> hold(lock_);
    if (post->sending && post->from == options_.lost_rank) return;
    (post->sending ? sends_ : receives_)[line(post->from, post->to)].push_back(post);
    changed_.notify_all();
}

std::int32_t Mail::send(void *user, const void *data, std::int64_t bytes, std::int32_t to, void **request) {
    Box &box = *static_cast<Box *>(user);
    if (const std::int32_t status = box.mail->enter(box); status != 0) return status;
    Post *made = box.take({box.rank, to, true, nullptr, data, bytes, false});
    box.mail->post(made);
    *request = made;
    return 0;
}

std::int32_t Mail::receive(void *user, void *data, std::int64_t bytes, std::int32_t from, void **request) {
    Box &box = *static_cast<Box *>(user);
    if (const std::int32_t status = box.mail->enter(box); status != 0) return status;
    Post *made = box.take({from, box.rank, false, data, nullptr, bytes, false});
    box.mail->post(made);
    *request = made;
    return 0;
}

std::int32_t Mail::wait(void *user, void *request, double seconds) {
    Box &box = *static_cast<Box *>(user);
    Mail &mail = *box.mail;
    Post *post = static_cast<Post *>(request);
    std::unique_lock<std::mutex> hold(mail.lock_);
    box.unused.push_back(post);  // not taken before this returns
    mail.changed_.wait_for(hold, std::chrono::duration<double>(seconds), [&] { return post->done || mail.given_up_; });
    if (post->done) return 0;
    for (auto *all : {&mail.sends_, &mail.receives_}) std::erase((*all)[mail.line(post->from, post->to)], post);
    return mail.given_up_ ? 77 : ATTILE_ERROR_RANK_LATE;
}

std::int32_t Mail::all_gather(void *user, const void *send_data, void *receive_data, std::int64_t bytes, double seconds) {
    Box &box = *static_cast<Box *>(user);
    for (std::size_t rank = 0; rank < box.sizes.size(); ++rank) {
        box.sizes[rank] = bytes;
        box.places[rank] = static_cast<std::int64_t>(rank) * bytes;
    }
    return all_to_all(user, send_data, box.sizes.data(), box.own.data(), receive_data, box.sizes.data(), box.places.data(), seconds);
}

std::int32_t Mail::all_to_all(void *user, const void *send_data, const std::int64_t *send_bytes, const std::int64_t *send_offsets,
                              void *receive_data, const std::int64_t *receive_bytes, const std::int64_t *receive_offsets, double seconds) {
    Box &box = *static_cast<Box *>(user);
    box.requests.clear();
    std::int32_t status = 0;
    // Nothing may be thrown past what is under way.
    const auto start = [&](auto &&function) {
        void *request = nullptr;
        try {
            status = function(&request);
        } catch (...) {
            status = 12;
        }
        if (status == 0) box.requests.push_back(request);
    };
    for (int other = 0; other < box.mail->ranks_ && status == 0; ++other) {
        const char *source = static_cast<const char *>(send_data) + send_offsets[other];
        char *target = static_cast<char *>(receive_data) + receive_offsets[other];
        if (other == box.rank) {
            if (send_bytes[other] > 0) std::memcpy(target, source, static_cast<std::size_t>(send_bytes[other]));
            continue;
        }
        if (receive_bytes[other] > 0) start([&](void **request) { return receive(user, target, receive_bytes[other], other, request); });
        if (status == 0 && send_bytes[other] > 0) {
            start([&](void **request) { return send(user, source, send_bytes[other], other, request); });
        }
    }
    for (void *request : box.requests) {
        const std::int32_t waited = wait(user, request, status == 0 ? seconds : 0);
        if (status == 0) status = waited;
    }
    return status;
}

void Mail::give_up(void *user, std::int32_t, const char *) {
    Mail &mail = *static_cast<Box *>(user)->mail;
    const std::lock_guard<std::mutex> hold(mail.lock_);
    mail.given_up_ = true;
    mail.changed_.notify_all();
}

}  // namespace attile::test
