// SPDX-License-Identifier: Apache-2.0
// One case from drawing to verdict.
#include "runner.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>

#include "checker.h"
#include "problem.h"

namespace attile::test {

struct Answer {
    struct Output {
        std::string name;
        Values values;
        std::vector<bool> untouched;
        Honest honest;
    };
    std::vector<Output> outputs;
};

namespace {

std::string last_error() {
    char text[512];
    attile_last_error(text, sizeof text);
    return text;
}

std::string status_text(std::int32_t status) { return std::string(attile_status_name(status)) + " (" + last_error() + ")"; }

// Empty if the call did as its query said and left nothing behind where the query said NONE.
std::string check_refusal(const attile_support &support, std::int32_t status, Call &call) {
    if (status != support.status)
        return "query foretold " + std::string(attile_status_name(support.status)) + ", the call returned " + status_text(status);
    call.fetch();
    if (std::string damage = call.damage(); !damage.empty()) return damage;
    return {};
}

std::vector<std::vector<std::byte>> output_bytes(const Call &call) {
    std::vector<std::vector<std::byte>> bytes;
    for (const Call::Output &out : call.outputs()) bytes.push_back(out.tensor->element_bytes_in_order());
    return bytes;
}

void finish(attile_context *context, std::int32_t status, const char *what) {
    if (status != ATTILE_OK) throw std::runtime_error(std::string(what) + " returned " + status_text(status));
    status = attile_synchronize(context, nullptr);
    if (status != ATTILE_OK) throw std::runtime_error(std::string(what) + ": synchronizing returned " + status_text(status));
}

// The same call in float64 on the reference backend.
std::shared_ptr<const Answer> answer_of(attile_context *reference, const Problem &problem) {
    const std::unique_ptr<Call> exact = problem.bind(reference, Placement::kHost, true);
    finish(reference, exact->run(), "the reference");
    exact->fetch();
    std::vector<Honest> honest = problem.honest();
    auto answer = std::make_shared<Answer>();
    for (std::size_t i = 0; i < exact->outputs().size(); ++i) {
        const Call::Output &want = exact->outputs()[i];
        honest.at(i).exact = {};  // which judges nobody
        answer->outputs.push_back({want.name, want.tensor->values(), want.tensor->untouched(), std::move(honest[i])});
    }
    return answer;
}

void judge(attile_context *reference, const Problem &problem, const Call &call, KnownAnswers *known, Report &report) {
    std::shared_ptr<const Answer> answer = known != nullptr ? known->find(report.id) : nullptr;
    if (answer == nullptr) {
        answer = answer_of(reference, problem);
        if (known != nullptr) known->keep(report.id, answer);
    }
    // In-place calls list their outputs in the order of their operands, so partners are found by name.
    for (const Answer::Output &want : answer->outputs) {
        const Call::Output *got = nullptr;
        for (const Call::Output &candidate : call.outputs())
            if (candidate.name == want.name) got = &candidate;
        if (got == nullptr) throw std::runtime_error("no output " + want.name);
        const Verdict verdict =
            check_values(got->tensor->values(), want.values, want.honest, got->tensor->view().dtype, problem.compute_dtype());
        report.worst = std::max(report.worst, verdict.worst);
        if (!verdict.passed) throw std::runtime_error(want.name + verdict.message);
        if (got->tensor->untouched() != want.untouched)
            throw std::runtime_error(want.name + ": elements that belong to the result were not written, or others were");
    }
}

// The same bits again, in the caller's workspace, by an ordinary call and by a prepared one.
void check_rerun(attile_context *context, const attile_support &support, const RunOptions &options, Call &call) {
    const auto before = output_bytes(call);
    TestWorkspace workspace(context, options.placement == Placement::kHost ? Placement::kHost : Placement::kDevice,
                            support.workspace_bytes);
    call.set_workspace(workspace.data(), workspace.bytes(), workspace.bytes() > 0 ? ATTILE_FLAG_NO_ALLOC : 0u);
    for (const bool is_prepared : {false, true}) {
        const std::string what = is_prepared ? "the run of the prepared call" : "the second run";
        call.reset();
        finish(context, is_prepared ? call.run_prepared() : call.run(), (what + ", in the caller's workspace,").c_str());
        call.fetch();
        if (output_bytes(call) != before) throw std::runtime_error(what + " gives other bits");
        if (std::string damage = call.damage(); !damage.empty()) throw std::runtime_error(what + ": " + damage);
    }
    if (std::string damage = workspace.damage(); !damage.empty()) throw std::runtime_error(damage);
}

std::size_t bytes_of(const Answer &answer) {
    std::size_t doubles = 0;
    for (const Answer::Output &one : answer.outputs)
        doubles += one.values.at.size() + one.honest.first.at.size() + one.honest.second.at.size() + one.honest.magnitude.at.size();
    return doubles * sizeof(double);
}

}  // namespace

std::shared_ptr<const Answer> KnownAnswers::find(const std::string &id) const {
    const auto found = answers_.find(id);
    return found == answers_.end() ? nullptr : found->second;
}

void KnownAnswers::keep(const std::string &id, const std::shared_ptr<const Answer> &answer) {
    const std::size_t bytes = bytes_of(*answer);
    if (bytes > left_) return;
    left_ -= bytes;
    answers_[id] = answer;
}

void run_case(attile_context *context, attile_context *reference, const Case &test_case, const RunOptions &options, Report &report) {
    report = {};
    report.id = test_case.id;
    report.description = describe(test_case);
    try {
        const std::unique_ptr<Problem> problem = make_problem(test_case);
        const std::unique_ptr<Call> call = problem->bind(context, options.placement, false);
        attile_support support;
        attile_support_init(&support, sizeof support);
        const std::int32_t asked = call->query(&support);
        if (asked != ATTILE_OK) throw std::runtime_error("the query returned " + status_text(asked));
        report.kernel = support.kernel;

        const auto start = std::chrono::steady_clock::now();
        const std::int32_t status = call->run();
        if (support.level == ATTILE_SUPPORT_NONE) {
            report.message = check_refusal(support, status, *call);
            report.outcome = report.message.empty() ? Outcome::kUnsupported : Outcome::kFailed;
            if (report.message.empty()) report.message = support.text;
            return;
        }
        finish(context, status, "the call");
        report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        call->fetch();
        if (std::string damage = call->damage(); !damage.empty()) throw std::runtime_error(damage);
        judge(reference, *problem, *call, options.known, report);
        if (options.rerun) check_rerun(context, support, options, *call);
        report.outcome = Outcome::kPassed;
    } catch (const std::exception &error) {
        report.outcome = Outcome::kFailed;
        report.message = error.what();
    }
}

VerifySummary verify_backend(attile_context *context, Tier tier, const std::string &filter, const RunOptions &options,
                             const std::function<void(const Report &, int number, int total)> &progress) {
    attile_context_options reference_options;
    attile_context_options_init(&reference_options, sizeof reference_options);
    reference_options.backend = "reference";
    attile_context *opened = nullptr;
    if (const std::int32_t status = attile_context_create(&reference_options, &opened); status != ATTILE_OK)
        throw std::runtime_error("the reference backend: " + status_text(status));
    const std::unique_ptr<attile_context, decltype(&attile_context_destroy)> reference(opened, attile_context_destroy);

    std::vector<Case> cases;
    for (Case &candidate : list_cases(tier))
        if (candidate.id.find(filter) != std::string::npos && (options.most_work == 0 || multiply_adds(candidate) <= options.most_work))
            cases.push_back(std::move(candidate));
    if (cases.empty())
        if (std::optional<Case> one = find_case(filter)) cases.push_back(std::move(*one));

    VerifySummary summary;
    int number = 0;
    for (const Case &test_case : cases) {
        Report report;
        RunOptions of_this = options;
        of_this.rerun = options.rerun && number % options.rerun_each == 0;
        run_case(context, reference.get(), test_case, of_this, report);
        (report.outcome == Outcome::kPassed   ? summary.passed
         : report.outcome == Outcome::kFailed ? summary.failed
                                              : summary.unsupported) += 1;
        if (report.worst > summary.worst) {
            summary.worst = report.worst;
            summary.worst_id = report.id;
        }
        ++number;
        if (progress) progress(report, number, static_cast<int>(cases.size()));
    }
    return summary;
}

}  // namespace attile::test
