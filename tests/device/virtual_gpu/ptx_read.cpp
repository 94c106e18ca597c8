// SPDX-License-Identifier: Apache-2.0
// From a kernel's text to instructions.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <utility>

#include "ptx_text.h"

namespace attile::virtual_gpu {
namespace {

constexpr int kMostCalls = 16;             // Within each other.
constexpr const char kReturn[] = "(ret)";  // A label where a function has ended.

// What a kernel's text is turned into, statement by statement.
class Reader {
  public:
    Reader(Kernel *kernel, const Declared &declared) : kernel_(*kernel), declared_(declared) {}

    void read_head(Text parameters, Text directives) {
        std::size_t at = 0;
        for (Text parameter : split(parameters, ',')) {
            next_word(&parameter);  // ".param"
            const Variable variable = read_variable(parameter);
            at = aligned(at, variable.alignment);
            parameters_[variable.name] = at;
            kernel_.parameters.push_back({at, variable.bytes});
            at += variable.bytes;
        }
        while (!directives.empty()) {
            const Text word = next_word(&directives);
            if (word == ".maxntid" || word == ".reqntid") {
                int64_t threads = 1;
                for (const Text part : split(directives.substr(0, directives.find_first_of(".\n")), ',')) threads *= number_of(part);
                kernel_.most_threads = static_cast<int32_t>(threads);
            } else if (word == ".minnctapersm") {
                kernel_.fewest_blocks = static_cast<int32_t>(number_of(next_word(&directives)));
            }
        }
    }

    void read_body(Text text) {
        body_ = text.data();
        open_scope();
        read_statements(text);
        while (!scopes_.empty()) close_scope();
        Instruction last;
        last.is_end = true;
        kernel_.code.push_back(last);
        kernel_.shared_bytes = static_cast<int32_t>(shared_);
        std::size_t alignment = 16;
        for (const Variable &variable : declared_.open_shared) alignment = std::max(alignment, variable.alignment);
        kernel_.dynamic_shared_at = static_cast<int32_t>(aligned(shared_, alignment));
        kernel_.local_bytes = static_cast<int32_t>(aligned(most_local_, 16));
        for (const auto &[value, alignment_wanted] : late_shared_) put_constant(value, static_cast<uint64_t>(kernel_.dynamic_shared_at));
    }

  private:
    struct Scope {
        std::map<std::string, int32_t, std::less<>> registers, labels;
        std::map<std::string, std::size_t, std::less<>> parameters;  // Of calls: places in local memory.
        std::vector<std::pair<std::size_t, std::string>> branches;   // Instructions whose targets are not known yet.
        std::size_t local = 0;                                       // What was taken of local memory before.
    };
    struct Family {  // "%r<100>"
        int32_t first, count;
    };

    void read_statements(Text text) {
        std::size_t at = 0;
        while (at < text.size()) {
            const char c = text[at];
            if (std::isspace(static_cast<unsigned char>(c)) != 0) {
                if (c == '\n') ++line_;
                ++at;
            } else if (text.substr(at, 5) == ".loc\t" || text.substr(at, 5) == ".loc " || text.substr(at, 5) == ".file") {
                at = std::min(text.find('\n', at), text.size());  // These end with their line.
            } else if (c == '{') {
                open_scope();
                ++at;
            } else if (c == '}') {
                close_scope();
                ++at;
            } else if (const std::size_t label = label_end(text, at); label != 0) {
                scopes_.back().labels[std::string(text.substr(at, label - at))] = static_cast<int32_t>(kernel_.code.size());
                at = label + 1;
            } else {
                const std::size_t end = text.find(';', at);
                if (end == Text::npos) fault("a statement without an end");
                read_statement(text.substr(at, end - at));
                line_ += static_cast<int>(
                    std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
                at = end + 1;
            }
        }
    }

    static std::size_t label_end(Text text, std::size_t at) {
        std::size_t end = at;
        while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_' || text[end] == '$'))
            ++end;
        return end > at && end < text.size() && text[end] == ':' && text[end + 1] != ':' ? end : 0;
    }

    void open_scope() {
        scopes_.emplace_back();
        scopes_.back().local = local_;
    }

    void close_scope() {
        Scope closed = std::move(scopes_.back());
        scopes_.pop_back();
        local_ = closed.local;
        for (auto &[instruction, name] : closed.branches) {
            const auto found = closed.labels.find(name);
            if (found != closed.labels.end())
                kernel_.code[instruction].target = found->second;
            else if (!scopes_.empty())
                scopes_.back().branches.emplace_back(instruction, name);
            else
                fault("there is no label " + name);
        }
    }

    void read_statement(Text text) {
        text = trimmed(text);
        if (text.empty()) return;
        if (text[0] == '.') return read_directive(text);
        Instruction instruction;
        instruction.line = line_;
        if (text[0] == '@') {
            text.remove_prefix(1);
            instruction.guard = read_operand(next_word(&text), Kind::kPredicate);
        }
        const Text name = next_word(&text);
        Opcode opcode;
        for (std::size_t from = 0; from <= name.size();) {
            const std::size_t dot = std::min(name.find('.', from), name.size());
            opcode.parts.push_back(name.substr(from, dot - from));
            from = dot + 1;
        }
        if (opcode.is("call")) {
            if (instruction.guard.kind != Kind::kNone) fault("a call for some lanes is not known");
            return read_call(text);
        }
        if (opcode.is("bra") || (opcode.is("ret") && depth_ > 0)) {
            instruction.is_branch = true;
            scopes_.back().branches.emplace_back(kernel_.code.size(), opcode.is("ret") ? kReturn : std::string(trimmed(text)));
        } else if (opcode.is("ret") || opcode.is("exit")) {
            instruction.is_end = true;
        } else {
            const Text last = opcode.parts.back();
            const bool is_wide = !opcode.is("mbarrier") && (last == "b64" || last == "u64" || last == "s64" || last == "f64");
            const bool is_shift = opcode.is("shl") || opcode.is("shr");
            for (const Text part : split(text, ',')) {
                const bool is_amount = is_shift && instruction.arguments.size() == 2;
                const bool is_sum =
                    opcode.is("mad") && opcode.has("wide") && (last == "s32" || last == "u32") && instruction.arguments.size() == 3;
                Kind kind = (is_wide && !is_amount) || is_sum ? Kind::kWide : Kind::kNarrow;
                if (last == "pred" && !opcode.is("bar") && !opcode.is("vote")) kind = Kind::kPredicate;  // Of numbers in their place.
                instruction.arguments.push_back(read_argument(part, kind, opcode.has("param")));
            }
            if (!decode_plain(opcode, &instruction) && !decode_together(opcode, &instruction) && !decode_tensor(opcode, &instruction) &&
                !decode_async(opcode, &instruction))
                fault("the instruction " + std::string(name) + " is not known");
            instruction.writes_first = writes_first(opcode, instruction);
            instruction.reads_first = opcode.is("wgmma");
            if (opcode.is("wgmma") || (opcode.is("cp") && opcode.has("bulk"))) kernel_.has_async_proxy = true;
        }
        kernel_.code.push_back(std::move(instruction));
    }

    // "(result), function, (arguments)": the function's instructions stand here as if the compiler had put them here.
    void read_call(Text text) {
        std::vector<Text> parts = split(text, ',');
        Text results, arguments;
        const auto inside = [](Text part) { return part.substr(1, part.size() - 2); };
        if (parts.size() > 1 && parts.front().front() == '(') {
            results = inside(parts.front());
            parts.erase(parts.begin());
        }
        if (parts.size() > 1) arguments = inside(parts[1]);
        const auto found = parts.empty() ? declared_.functions.end() : declared_.functions.find(parts[0]);
        if (found == declared_.functions.end()) fault("the function of 'call " + std::string(text) + "' is not known");
        const Function &function = found->second;
        if (depth_ == kMostCalls) fault("functions call each other without an end");
        std::map<std::string, std::size_t, std::less<>> bound;
        for (const auto &[formal, actual] : {std::pair{function.results, results}, std::pair{function.parameters, arguments}}) {
            const std::vector<Text> names = split(formal, ','), given = split(actual, ',');
            if (names.size() != given.size()) fault("a call of " + found->first + " with other arguments than it has");
            for (std::size_t i = 0; i < names.size(); ++i) {
                Text name = names[i];
                next_word(&name);  // ".param"
                const std::size_t *const place = parameter_of(given[i]);
                if (place == nullptr) fault("what is '" + std::string(given[i]) + "'?");
                bound[read_variable(name).name] = *place;
            }
        }
        const auto families = std::exchange(families_, {});
        const int line = std::exchange(line_, line_of(function.body.data()));
        open_scope();
        scopes_.back().parameters = std::move(bound);
        ++depth_;
        read_statements(function.body);
        --depth_;
        scopes_.back().labels[kReturn] = static_cast<int32_t>(kernel_.code.size());
        close_scope();
        line_ = line;
        families_ = families;
    }

    // Of the kernel's body, on as the module's text goes.
    int line_of(const char *place) const {
        const int lines = static_cast<int>(std::count(std::min(body_, place), std::max(body_, place), '\n'));
        return place < body_ ? -lines : lines;
    }

    // A variable of the calls' parameters.
    const std::size_t *parameter_of(Text name) const {
        for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
            if (const auto found = scope->parameters.find(name); found != scope->parameters.end()) return &found->second;
        return nullptr;
    }

    std::size_t local_place(const Variable &variable) {
        const std::size_t place = aligned(local_, variable.alignment);
        local_ = place + variable.bytes;
        most_local_ = std::max(most_local_, local_);
        return place;
    }

    static bool writes_first(const Opcode &opcode, const Instruction &instruction) {
        if (instruction.arguments.empty() || instruction.arguments[0].is_address) return false;
        if (opcode.is("wgmma")) return opcode.has("mma_async");
        if (opcode.is("bar") || opcode.is("barrier")) return opcode.has("red");
        for (const Text name : {"nanosleep", "setmaxnreg", "cp", "trap", "griddepcontrol", "fence", "membar"})
            if (opcode.is(name)) return false;
        return true;
    }

    void read_directive(Text text) {
        const Text word = next_word(&text);
        if (word == ".reg") {
            const Kind kind = type_of(next_word(&text)).kind;
            for (const Text name : split(text, ',')) {
                if (const std::size_t angle = name.find('<'); angle != Text::npos) {
                    const int64_t count = number_of(name.substr(angle + 1, name.find('>') - angle - 1));
                    families_[std::string(name.substr(0, angle))] = {static_cast<int32_t>(kernel_.registers.size()),
                                                                     static_cast<int32_t>(count)};
                    kernel_.registers.insert(kernel_.registers.end(), static_cast<std::size_t>(count), kind);
                } else {
                    scopes_.back().registers[std::string(name)] = static_cast<int32_t>(kernel_.registers.size());
                    kernel_.registers.push_back(kind);
                }
            }
        } else if (word == ".shared") {
            const Variable variable = read_variable(text);
            shared_ = aligned(shared_, variable.alignment);
            shared_names_[variable.name] = shared_;
            shared_ += variable.bytes;
        } else if (word == ".local") {
            const Variable variable = read_variable(text);
            local_names_[variable.name] = local_place(variable);
        } else if (word == ".param") {
            const Variable variable = read_variable(text);
            scopes_.back().parameters[variable.name] = local_place(variable);
        } else if (word != ".pragma") {
            fault("the directive " + std::string(word) + " is not known");
        }
    }

    int32_t register_of(Text name) const {
        for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
            if (const auto found = scope->registers.find(name); found != scope->registers.end()) return found->second;
        std::size_t digits = name.size();
        while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
        const auto family = families_.find(name.substr(0, digits));
        if (family == families_.end() || digits == name.size()) return -1;
        const int64_t number = number_of(name.substr(digits));
        return number < family->second.count ? family->second.first + static_cast<int32_t>(number) : -1;
    }

    Operand of_register(int32_t number) const {
        Operand operand;
        operand.kind = kernel_.registers[static_cast<std::size_t>(number)];
        operand.place = number;
        return operand;
    }

    // A register that the machine fills before a warp starts.
    Operand special(const std::string &name, Kind kind) {
        for (const auto &[known, operand] : kernel_.specials)
            if (known == name) return operand;
        kernel_.registers.push_back(kind);
        const Operand operand = of_register(static_cast<int32_t>(kernel_.registers.size() - 1));
        kernel_.specials.emplace_back(name, operand);
        return operand;
    }

    void put_constant(const Operand &operand, uint64_t value) {
        unsigned char *const row = kernel_.constants.data() + operand.place;
        for (int lane = 0; lane < kLanes; ++lane) {
            if (operand.kind == Kind::kWide)
                std::memcpy(row + 8 * lane, &value, 8);
            else
                std::memcpy(row + 4 * lane, &value, 4);
        }
    }

    Operand constant(Kind kind, uint64_t value, bool is_shared = true) {
        if (kind != Kind::kWide) value &= 0xffffffffu;
        const auto known = constants_.find({kind, value});
        if (is_shared && known != constants_.end()) return known->second;
        Operand operand;
        operand.kind = kind;
        operand.is_constant = true;
        operand.place = static_cast<int32_t>(kernel_.constants.size());
        kernel_.constants.resize(kernel_.constants.size() + (kind == Kind::kWide ? 8 : 4) * kLanes);
        put_constant(operand, value);
        if (is_shared) constants_[{kind, value}] = operand;
        return operand;
    }

    Operand read_operand(Text text, Kind wanted) {
        text = trimmed(text);
        if (text == "_") return {};
        if (text[0] == '!') {
            Operand operand = read_operand(text.substr(1), wanted);
            operand.is_negated = !operand.is_negated;
            return operand;
        }
        if (const int32_t number = register_of(text); number >= 0) return of_register(number);
        if (text[0] == '%') return special(std::string(text), Kind::kNarrow);
        if (text[0] == '0' && text.size() > 2 && (text[1] == 'f' || text[1] == 'F'))
            return constant(Kind::kNarrow, std::strtoull(std::string(text.substr(2)).c_str(), nullptr, 16));
        if (text[0] == '0' && text.size() > 2 && (text[1] == 'd' || text[1] == 'D'))
            return constant(Kind::kWide, std::strtoull(std::string(text.substr(2)).c_str(), nullptr, 16));
        if (text == "WARP_SZ") return constant(wanted, kLanes);
        if (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-') {
            const uint64_t value = static_cast<uint64_t>(number_of(text));
            return constant(wanted, wanted == Kind::kPredicate && value != 0 ? ~uint64_t{0} : value);
        }
        return symbol(std::string(text), wanted);
    }

    // The address of a variable.
    Operand symbol(const std::string &name, Kind wanted) {
        if (const auto found = shared_names_.find(name); found != shared_names_.end()) return constant(wanted, found->second);
        for (const Variable &variable : declared_.open_shared) {
            if (variable.name != name) continue;
            // After all that the kernel declares, which it may yet do.
            const Operand operand = constant(wanted, 0, false);
            late_shared_.emplace_back(operand, variable.alignment);
            return operand;
        }
        if (const std::size_t *const place = parameter_of(name)) return local_at(*place);
        if (const auto found = local_names_.find(name); found != local_names_.end()) return local_at(found->second);
        if (const auto found = parameters_.find(name); found != parameters_.end()) {
            if (found->second != 0) fault("the address of a parameter after the first");
            return special("parameters", Kind::kWide);
        }
        if (const auto found = declared_.globals.find(name); found != declared_.globals.end()) return constant(Kind::kWide, found->second);
        fault("what is '" + name + "'?");
    }

    Operand local_at(std::size_t place) { return special(place == 0 ? "local" : "local+" + std::to_string(place), Kind::kWide); }

    Argument read_argument(Text text, Kind wanted, bool is_parameter) {
        Argument argument;
        if (text[0] == '{') {
            for (const Text part : split(text.substr(1, text.rfind('}') - 1), ',')) argument.braces.push_back(read_operand(part, wanted));
        } else if (text[0] == '[') {
            argument.is_address = true;
            const std::vector<Text> parts = split(text.substr(1, text.rfind(']') - 1), ',');
            Text base = parts[0];
            if (const std::size_t plus = base.find('+'); plus != Text::npos) {
                argument.offset = number_of(base.substr(plus + 1));
                base = trimmed(base.substr(0, plus));
            }
            const auto parameter = parameters_.find(base);
            const std::size_t *const of_call = is_parameter ? parameter_of(base) : nullptr;
            if (of_call != nullptr) {
                argument.value = local_at(0);
                argument.offset += static_cast<int64_t>(*of_call);
            } else if (is_parameter && parameter != parameters_.end())
                argument.offset += static_cast<int64_t>(parameter->second);
            else
                argument.value = read_operand(base, Kind::kWide);
            if (parts.size() > 1)
                for (const Text part : split(parts[1].substr(1, parts[1].rfind('}') - 1), ','))
                    argument.braces.push_back(read_operand(part, Kind::kNarrow));
        } else if (const std::size_t bar = text.find('|'); bar != Text::npos) {
            argument.value = read_operand(text.substr(0, bar), wanted);
            argument.second = read_operand(text.substr(bar + 1), Kind::kPredicate);
        } else {
            argument.value = read_operand(text, wanted);
        }
        return argument;
    }

    Kernel &kernel_;
    const Declared &declared_;
    std::vector<Scope> scopes_;
    std::map<std::string, Family, std::less<>> families_;
    std::map<std::string, std::size_t, std::less<>> parameters_, shared_names_, local_names_;
    std::map<std::pair<Kind, uint64_t>, Operand> constants_;
    std::vector<std::pair<Operand, std::size_t>> late_shared_;
    std::size_t shared_ = 0, local_ = 0, most_local_ = 0;
    const char *body_ = nullptr;  // The kernel's.
    int line_ = 0, depth_ = 0;    // Of calls.
};

}  // namespace

void read_kernel(Kernel *kernel, const Declared &declared, Text parameters, Text directives, Text body) {
    Reader reader(kernel, declared);
    reader.read_head(parameters, directives);
    reader.read_body(body);
}

}  // namespace attile::virtual_gpu
