// SPDX-License-Identifier: Apache-2.0
// A module's text: its variables, and where its kernels are.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>

#include "ptx_places.h"
#include "ptx_text.h"

namespace attile::virtual_gpu {

Text trimmed(Text text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
    return text;
}

Text next_word(Text *text) {
    *text = trimmed(*text);
    std::size_t end = 0;
    while (end < text->size() && std::isspace(static_cast<unsigned char>((*text)[end])) == 0) ++end;
    const Text word = text->substr(0, end);
    *text = trimmed(text->substr(end));
    return word;
}

std::vector<Text> split(Text text, char separator) {
    std::vector<Text> parts;
    int depth = 0;
    std::size_t from = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i == text.size() || (text[i] == separator && depth == 0)) {
            parts.push_back(trimmed(text.substr(from, i - from)));
            from = i + 1;
        } else if (std::strchr("{[(<", text[i]) != nullptr) {
            ++depth;
        } else if (std::strchr("}])>", text[i]) != nullptr) {
            --depth;
        }
    }
    if (parts.size() == 1 && parts[0].empty()) parts.clear();
    return parts;
}

int64_t number_of(Text text) {
    text = trimmed(text);
    const bool is_negative = !text.empty() && text[0] == '-';
    std::string digits(text.substr(is_negative ? 1 : 0));
    while (!digits.empty() && (digits.back() == 'U' || digits.back() == 'u')) digits.pop_back();
    char *end = nullptr;
    const uint64_t value = std::strtoull(digits.c_str(), &end, 0);
    if (digits.empty() || *end != 0) fault("'" + std::string(text) + "' is no number");
    return static_cast<int64_t>(is_negative ? 0 - value : value);
}

Type type_of(Text name) {
    if (name == ".pred") return {Kind::kPredicate, 4};
    if (name == ".b64" || name == ".u64" || name == ".s64" || name == ".f64") return {Kind::kWide, 8};
    const int bytes = name == ".b8" || name == ".u8" || name == ".s8" ? 1 : name.find("16") != Text::npos && name != ".f16x2" ? 2 : 4;
    return {Kind::kNarrow, bytes};
}

Variable read_variable(Text text) {
    Variable variable;
    Text initial;
    if (const std::size_t equal = text.find('='); equal != Text::npos) {
        initial = trimmed(text.substr(equal + 1));
        text = trimmed(text.substr(0, equal));
    }
    int element = 4;
    bool is_aligned = false, is_of_target = false;  // After ".ptr" comes what is true of what it points to.
    while (!text.empty()) {
        const Text word = next_word(&text);
        if (word == ".align") {
            const std::size_t alignment = static_cast<std::size_t>(number_of(next_word(&text)));
            if (is_of_target) continue;
            variable.alignment = alignment;
            is_aligned = true;
        } else if (word[0] == '.') {
            if (word == ".ptr") is_of_target = true;
            if (word != ".ptr" && word != ".global" && word != ".shared" && word != ".const") element = type_of(word).bytes;
        } else {
            const std::size_t bracket = word.find('[');
            variable.name = word.substr(0, bracket);
            std::size_t count = 1;
            if (bracket != Text::npos) {
                const Text inside = word.substr(bracket + 1, word.find(']') - bracket - 1);
                variable.is_open = inside.empty();
                count = inside.empty() ? 0 : static_cast<std::size_t>(number_of(inside));
            }
            variable.bytes = count * static_cast<std::size_t>(element);
        }
    }
    if (!is_aligned) variable.alignment = static_cast<std::size_t>(element);
    if (!initial.empty()) {
        if (initial.front() == '{') initial = initial.substr(1, initial.size() - 2);
        for (const Text part : split(initial, ',')) {
            const int64_t number = number_of(part);
            for (int i = 0; i < element; ++i) variable.value.push_back(static_cast<unsigned char>(number >> (8 * i)));
        }
    }
    return variable;
}

namespace {

// Without comments; lines stay lines.
std::string without_comments(const std::string &text) {
    std::string plain;
    plain.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '/' && i + 1 < text.size() && text[i + 1] == '/') {
            while (i < text.size() && text[i] != '\n') ++i;
            --i;
        } else if (text[i] == '/' && i + 1 < text.size() && text[i + 1] == '*') {
            i = std::min(text.find("*/", i), text.size() - 2) + 1;
        } else {
            plain.push_back(text[i]);
        }
    }
    return plain;
}

// Where the body that opens at `open` has closed.
std::size_t end_of_body(Text text, std::size_t open) {
    std::size_t end = open + 1;
    for (int depth = 1; depth > 0; ++end) {
        if (text[end] == '{') ++depth;
        if (text[end] == '}') --depth;
    }
    return end;
}

// Takes what stands in parentheses at the text's beginning, if something does.
Text next_parentheses(Text *text) {
    *text = trimmed(*text);
    if (text->empty() || text->front() != '(') return {};
    const std::size_t close = text->find(')');
    const Text inside = text->substr(1, close - 1);
    text->remove_prefix(close + 1);
    return inside;
}

}  // namespace

struct Module::Parts {
    struct Entry {
        Text parameters, directives, body;
        std::unique_ptr<Kernel> kernel;
    };
    std::string text;
    std::map<std::string, Entry, std::less<>> entries;
    Declared declared;
};

Module::Module(std::string text) : parts_(std::make_unique<Parts>()) {
    parts_->text = without_comments(text);
    const Text all = parts_->text;
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = all.find_first_of(";{\n", at);
        if (end == Text::npos) break;
        const Text piece = all.substr(at, end - at);
        if (piece.find(".entry") != Text::npos) {
            const std::size_t name_at = all.find(".entry", at) + 6, open = all.find('(', name_at), close = all.find(')', open),
                              body = all.find('{', close);
            const std::size_t last = end_of_body(all, body);
            Parts::Entry &entry = parts_->entries[std::string(trimmed(all.substr(name_at, open - name_at)))];
            entry.parameters = all.substr(open + 1, close - open - 1);
            entry.directives = all.substr(close + 1, body - close - 1);
            entry.body = all.substr(body + 1, last - body - 2);
            at = last;
        } else if (const std::size_t function = piece.find(".func"); function != Text::npos) {
            const std::size_t head = at + function + 5, body = all.find_first_of("{;", head);
            at = body + 1;
            if (all[body] == ';') continue;  // It is declared before it is there.
            at = end_of_body(all, body);
            Function read;
            Text rest = all.substr(head, body - head);
            read.results = next_parentheses(&rest);
            const std::size_t open = std::min(rest.find('('), rest.size());
            const std::string name(trimmed(rest.substr(0, open)));
            rest.remove_prefix(open);
            read.parameters = next_parentheses(&rest);
            read.body = all.substr(body + 1, at - body - 2);
            parts_->declared.functions[name] = read;
        } else if (piece.find(".shared") != Text::npos || piece.find(".global") != Text::npos || piece.find(".const") != Text::npos) {
            const std::size_t stop = all.find(';', at);
            Text whole = trimmed(all.substr(at, stop - at));
            while (!whole.empty() && (whole.substr(0, 7) == ".extern" || whole.substr(0, 8) == ".visible" || whole.substr(0, 5) == ".weak"))
                next_word(&whole);
            const Text space = next_word(&whole);
            Variable variable = read_variable(whole);
            if (space == ".shared") {
                if (!variable.is_open) fault("shared memory of a module, " + variable.name + ", is not known");
                parts_->declared.open_shared.push_back(variable);
            } else {
                unsigned char *const memory = static_cast<unsigned char *>(allocate(std::max(variable.bytes, variable.value.size())));
                std::memset(memory, 0, variable.bytes);
                std::copy(variable.value.begin(), variable.value.end(), memory);
                parts_->declared.globals[variable.name] = reinterpret_cast<uint64_t>(memory);
            }
            at = stop + 1;
        } else {
            at = end + 1;
        }
    }
}

Module::~Module() = default;

const Kernel *Module::find(const std::string &name) {
    const auto found = parts_->entries.find(name);
    if (found == parts_->entries.end()) return nullptr;
    Parts::Entry &entry = found->second;
    if (entry.kernel == nullptr) {
        auto kernel = std::make_unique<Kernel>();
        kernel->name = name;
        read_kernel(kernel.get(), parts_->declared, entry.parameters, entry.directives, entry.body);
        give_places(kernel.get());
        entry.kernel = std::move(kernel);
    }
    return entry.kernel.get();
}

}  // namespace attile::virtual_gpu
