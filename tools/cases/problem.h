// SPDX-License-Identifier: Apache-2.0
// A case's data, and a call of the library bound to memory that holds them.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cases.h"
#include "honest.h"
#include "test_tensor.h"

namespace attile::test {

/// One operation with arguments that point to guarded memory. Query and run may be repeated.
class Call {
  public:
    struct Output {
        std::string name;
        TestTensor *tensor;
    };

    virtual ~Call() = default;
    virtual std::int32_t query(attile_support *support) const = 0;
    virtual std::int32_t run() const = 0;
    /// As a prepared call that was prepared for operands elsewhere, where the operation can be prepared; else as run().
    virtual std::int32_t run_prepared() const { return run(); }
    virtual void set_workspace(void *workspace, std::int64_t bytes, std::uint32_t flags) = 0;  ///< Flags are added.
    virtual void set_stream(void *stream) = 0;

    void reset();                 ///< Every tensor's first contents again.
    void begin_as(const Call &);  ///< The first contents are from now on those of a call of the same case with other data.
    void fetch();                 ///< Contents back to where values() reads them.
    std::string damage() const;   ///< Of any tensor; empty if none.
    const std::vector<Output> &outputs() const { return outputs_; }

  protected:
    /// Widened calls hold every number as float64 in dense host memory: the reference backend then gives the exact answer.
    Call(attile_context *context, Placement placement, bool widened) : context_(context), placement_(placement), widened_(widened) {}
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    /// A tensor as far from where it is as all others of the call are, and aligned alike: to prepare a call with, which reads no data.
    static attile_tensor elsewhere(attile_tensor tensor) {
        if (tensor.data != nullptr) tensor.data = static_cast<char *>(tensor.data) + (std::int64_t{1} << 20);
        return tensor;
    }

    attile_tensor input(std::int32_t dtype, const Values &values, const Layout &layout = {});
    attile_tensor output(const char *name, std::int32_t dtype, const std::vector<std::int64_t> &shape, const Layout &layout = {});
    attile_tensor in_place(const char *name, std::int32_t dtype, const Values &values, const Layout &layout = {});

    attile_context *context_;
    Placement placement_;
    bool widened_;

  private:
    attile_tensor keep(TestTensor tensor, const char *output_name);

    std::deque<TestTensor> tensors_;
    std::vector<Output> outputs_;
};

class Problem {
  public:
    virtual ~Problem() = default;
    virtual std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const = 0;
    /// One for each output of the call, in the same order.
    virtual std::vector<Honest> honest() const = 0;
    virtual std::int32_t compute_dtype() const = 0;
};

/// Of a problem that is only asked about; queries look at no element. Products' and attention's are left at 0 then, and bound to tensors
/// WithoutContents, which saves most of the time.
enum class Contents : std::uint8_t { kDrawn, kNone };

std::unique_ptr<Problem> make_problem(const Case &test_case, Contents contents = Contents::kDrawn);

std::unique_ptr<Problem> make_gemm_problem(const GemmCase &c, Contents contents);
std::unique_ptr<Problem> make_grouped_problem(const GroupedCase &c, Contents contents);
std::unique_ptr<Problem> make_attention_problem(const AttentionCase &c, Contents contents);
std::unique_ptr<Problem> make_backward_problem(const BackwardCase &c, Contents contents);
std::unique_ptr<Problem> make_merge_problem(const MergeCase &c);
std::unique_ptr<Problem> make_merge_backward_problem(const MergeBackwardCase &c);
std::unique_ptr<Problem> make_reduce_problem(const ReduceCase &c);
std::unique_ptr<Problem> make_softmax_problem(const SoftmaxCase &c);

inline std::int32_t compute_type(std::int32_t dtype) { return dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32; }

}  // namespace attile::test
