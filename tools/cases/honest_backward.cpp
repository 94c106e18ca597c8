// SPDX-License-Identifier: Apache-2.0
// Honest gradients of attention: rows before keys, and keys before rows.
#include <algorithm>

#include "honest.h"
#include "honest_scores.h"

namespace attile::test {
namespace {

struct Result {
    Values dq, dk, dv, dbias, dsinks;
};

template <class T>
struct Sums {
    explicit Sums(const BackwardData &data)
        : dq(data.forward.q.at.size()),
          dk(data.forward.k.at.size()),
          dv(data.forward.v.at.size()),
          dbias(data.forward.bias.at.size()),
          dsinks(data.forward.sinks.at.size()) {}
    std::vector<T> dq, dk, dv, dbias, dsinks;
};

// One pair's part in every gradient. In magnitude mode the absolute values are summed instead, with the relative size of the rounding of
// the score in them.
template <class T>
class Pairs {
  public:
    Pairs(const BackwardData &data, Sums<T> &sums, bool second, bool magnitude)
        : data_(data),
          f_(data.forward),
          sums_(sums),
          second_(second),
          magnitude_(magnitude),
          x_(f_),
          o_(converted<T>(data.o)),
          lse_(converted<T>(data.lse)),
          dout_(converted<T>(data.dout)),
          dlse_(converted<T>(data.dlse)),
          scale_(static_cast<T>(f_.scale())) {}

    void head(const AttentionEntry &e, std::int64_t h) {
        scores_ = compute_scores(f_, x_, e, h, second_, magnitude_);
        delta_.clear();
        for (std::int64_t i = 0; i < e.len_q; ++i) delta_.push_back(delta_of(e, h, i));
        if (second_) {
            for (std::int64_t j = 0; j < e.len_k; ++j)
                for (std::int64_t i = 0; i < e.len_q; ++i) pair(e, h, i, j);
        } else {
            for (std::int64_t i = 0; i < e.len_q; ++i)
                for (std::int64_t j = 0; j < e.len_k; ++j) pair(e, h, i, j);
        }
        if (f_.sinks.shape.empty()) return;
        const T sink = static_cast<T>(f_.sinks(h));
        for (std::int64_t i = 0; i < e.len_q; ++i) {
            const T lse = lse_at(e, h, i);
            T part = std::exp(sink - lse) * delta_[static_cast<std::size_t>(i)];
            if (magnitude_) part *= 1 + std::fabs(sink) + std::fabs(lse);
            sums_.dsinks[static_cast<std::size_t>(h)] += magnitude_ ? part : -part;
        }
    }

  private:
    const T *row(const std::vector<T> &x, const AttentionEntry &e, std::int64_t h, std::int64_t i) const {
        return q_row(f_, x, e, h, i, x_.dv);
    }
    T lse_at(const AttentionEntry &e, std::int64_t h, std::int64_t i) const { return *q_row(f_, lse_, e, h, i, 1); }
    T delta_of(const AttentionEntry &e, std::int64_t h, std::int64_t i) const {
        const T sum = product(row(dout_, e, h, i), row(o_, e, h, i));
        if (dlse_.empty()) return sum;
        const T dlse = *q_row(f_, dlse_, e, h, i, 1);
        return magnitude_ ? sum + std::fabs(dlse) : sum - dlse;
    }
    T product(const T *a, const T *b) const {
        return magnitude_ ? static_cast<T>(magnitude_of_dot(a, b, x_.dv)) : dot(a, b, x_.dv, second_);
    }

    void pair(const AttentionEntry &e, std::int64_t h, std::int64_t i, std::int64_t j) {
        const std::size_t at = scores_.at(i, j);
        if (scores_.s[at] == -std::numeric_limits<T>::infinity()) return;
        const auto sign = [this](T value) { return magnitude_ ? std::fabs(value) : value; };
        const T *dout = row(dout_, e, h, i), *q = q_row(f_, x_.q, e, h, i, x_.d);
        const T *k = scores_.k_row[static_cast<std::size_t>(j)], *v = scores_.v_row[static_cast<std::size_t>(j)];
        const T lse = lse_at(e, h, i), delta = delta_[static_cast<std::size_t>(i)];
        T p = std::exp(scores_.s[at] - lse);
        T slope = scores_.slope[at];
        if (magnitude_) {
            // A probability below the smallest normal number may be flushed to 0: an absolute error, here in units of the rounding.
            const Precision compute = precision_of(f_.c.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32);
            p = p * (static_cast<T>(1 + scores_.magnitude[at]) + std::fabs(lse)) +
                static_cast<T>(std::ldexp(1.0, compute.min_exponent) / compute.unit);
            if (f_.c.softcap != 0) slope += 2;  // 1 - t^2 and t itself are rounded in units of 1, however little is left
        }
        const T dp = product(dout, v);
        const T ds = p * (magnitude_ ? dp + delta : dp - delta);
        if (!f_.bias.shape.empty()) sums_.dbias[f_.bias_index(e.b, h, i, j)] += ds;

        const std::int32_t p_type = magnitude_ || sizeof(T) == sizeof(double) ? ATTILE_F64 : f_.c.dtype;
        const T through = as_operand(p_type, ds * slope) * (magnitude_ ? std::fabs(scale_) : scale_);
        const T weight = as_operand(p_type, p);
        T *dq = const_cast<T *>(q_row(f_, sums_.dq, e, h, i, x_.d));
        const std::int64_t key = scores_.key_index[static_cast<std::size_t>(j)];
        T *dk = sums_.dk.data() + key * x_.d, *dv = sums_.dv.data() + key * x_.dv;
        for (std::int64_t d = 0; d < x_.d; ++d) {
            dq[d] += through * sign(k[d]);
            dk[d] += through * sign(q[d]);
        }
        for (std::int64_t d = 0; d < x_.dv; ++d) dv[d] += weight * sign(dout[d]);
    }

    const BackwardData &data_;
    const AttentionData &f_;
    Sums<T> &sums_;
    bool second_, magnitude_;
    Operands<T> x_;
    std::vector<T> o_, lse_, dout_, dlse_, delta_;
    T scale_;
    Scores<T> scores_;
};

Values shaped(const Values &like, std::vector<double> at) {
    Values values;
    values.shape = like.shape;
    values.at = std::move(at);
    return values;
}

template <class T>
Result run(const BackwardData &data, bool second, bool magnitude) {
    Sums<T> sums(data);
    Pairs<T> pairs(data, sums, second, magnitude);
    const auto batch = data.forward.c.batch;
    for (std::int64_t step = 0; step < batch; ++step) {
        const AttentionEntry e = data.forward.entry(second ? batch - 1 - step : step);
        for (std::int64_t h = 0; h < data.forward.c.heads_q; ++h) pairs.head(e, h);
    }
    const auto wide = [](const Values &like, const std::vector<T> &x) { return shaped(like, std::vector<double>(x.begin(), x.end())); };
    const AttentionData &f = data.forward;
    return {wide(f.q, sums.dq), wide(f.k, sums.dk), wide(f.v, sums.dv), wide(f.bias, sums.dbias), wide(f.sinks, sums.dsinks)};
}

}  // namespace

std::vector<Honest> honest_backward(const BackwardData &data) {
    const bool f64 = data.forward.c.dtype == ATTILE_F64;
    const Result magnitude = run<double>(data, false, true);
    const Result first = f64 ? run<double>(data, false, false) : run<float>(data, false, false);
    const Result second = f64 ? run<double>(data, true, false) : run<float>(data, true, false);
    std::vector<Honest> all;
    const auto add = [&](Values Result::*part) { all.push_back({{}, first.*part, second.*part, magnitude.*part}); };
    add(&Result::dq);
    add(&Result::dk);
    add(&Result::dv);
    if (!data.forward.bias.shape.empty() && data.c.dbias) add(&Result::dbias);
    if (!data.forward.sinks.shape.empty() && data.c.dsinks) add(&Result::dsinks);
    return all;
}

}  // namespace attile::test
