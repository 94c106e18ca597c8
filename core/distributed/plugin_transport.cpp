// SPDX-License-Identifier: Apache-2.0
// Kinds of transports that are plugins: which file serves, and the table of its functions.
#include <attile/attile_comm_plugin.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "backend_call.h"
#include "distributed/transport.h"
#include "files.h"
#include "log.h"
#include "operation.h"
#include "registry.h"
#include "report.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr PluginContract kTransportContract = {"transport contract", ATTILE_COMM_PLUGIN_ABI_MAJOR, ATTILE_COMM_PLUGIN_ABI_MINOR,
                                               sizeof(attile_comm_plugin_v1)};
static_assert(offsetof(attile_comm_plugin_v1, version) == offsetof(PluginRoot, version));

// A transport that was accepted. Lives until the process ends, as what it points to does.
struct TransportPlugin {
    std::string name, version, where;
    attile_comm_plugin_v1 root;
    TransportPlugin *next;
};

// Guarded by the registry's lock.
constinit TransportPlugin *first_transport = nullptr;

std::string transport_label(const std::string &name) { return "transport " + name; }

int32_t meet_transport(void *entry, const std::string &name, const std::string &where, std::string *why) {
    const void *found = nullptr;
    const auto call = [&] { return reinterpret_cast<attile_comm_plugin_entry_fn>(entry)(host_table()); };
    ATTILE_TRY(meet_plugin(call, kTransportContract, name.c_str(), &found, why));
    auto met = std::make_unique<TransportPlugin>();
    std::memcpy(&met->root, found, sizeof met->root);
    if (met->root.probe == nullptr || met->root.open == nullptr || met->root.close == nullptr) {
        *why = "its root lacks probe, open or close";
        return ATTILE_ERROR_BACKEND_CONTRACT;
    }
    met->name = name;
    met->version = shown_version(found);
    met->where = where;
    met->next = first_transport;
    first_transport = met.release();
    return ATTILE_OK;
}

// The transport of that name, loading it if need be; NULL, and what is refused is in the report.
const TransportPlugin *find_plugin_transport(const std::string &name, int32_t *status, std::string *why) {
    const RegistryHold hold;
    *status = check_hold(hold, why);
    if (*status != ATTILE_OK) return nullptr;
    for (const TransportPlugin *known = first_transport; known != nullptr; known = known->next) {
        if (known->name == name) return known;
    }
    Plugin plugin;
    plugin.name = name;
    plugin.label = transport_label(name);
    plugin.file = "libattile_comm_" + name + library_suffix;
    plugin.entry = ATTILE_COMM_PLUGIN_ENTRY;
    plugin.opens_no_library = true;
    plugin.meet = [&](void *entry, const std::string &where, std::string *reason) { return meet_transport(entry, name, where, reason); };
    *status = load_plugin(plugin, why);
    return *status == ATTILE_OK ? first_transport : nullptr;
}

// Why no transport of a kind can be used: the reason that tells most. A transport whose libraries are here is the one that is meant; one
// whose file is there comes before one that is not installed.
class TransportRefusals {
  public:
    void add(const std::string &name, int32_t status, const std::string &why, bool meant) {
        const int weight = meant ? 3 : status != ATTILE_ERROR_BACKEND_NOT_FOUND ? 2 : 1;
        if (weight < weight_) return;
        if (weight > weight_) {
            text_.clear();
            status_ = status;
        }
        weight_ = weight;
        text_ += (text_.empty() ? "" : "; ") + name + ": " + why;
    }
    int32_t give(const char *kind) const {
        return fail(status_, "comm_create: no transport of kind '%s' can be used: %s", kind, text_.c_str());
    }

  private:
    int weight_ = 0;
    int32_t status_ = ATTILE_ERROR_BACKEND_NOT_FOUND;
    std::string text_;
};

// NULL, and the sentence and `status` are set, if there is none.
const TransportPlugin *choose_transport(const TransportKind &kind, int32_t *status) {
    TransportRefusals refusals;
    for (const char *const *name = kind.plugins; *name != nullptr; ++name) {
        const std::string label = transport_label(*name);
        report_forget(label);
        std::string why;
        const TransportPlugin *candidate = find_plugin_transport(*name, status, &why);
        if (candidate != nullptr) {
            *status = call_backend(&why, [&] { return candidate->root.probe(); });
            report_candidate(label, candidate->where, *status, *status == ATTILE_OK ? "version " + candidate->version : why);
            if (*status == ATTILE_OK) return candidate;
        }
        refusals.add(*name, *status, why, candidate != nullptr);
    }
    *status = refusals.give(kind.name);
    return nullptr;
}

// What the plugin is given of the context: the public functions, whose sentences become the plugin's words.
template <auto Function, typename... Values>
int32_t on_device(void *context, Values... values) {
    const int32_t status = Function(static_cast<attile_context *>(context), values...);
    if (status != ATTILE_OK) host_table()->set_error(error_text());
    return status;
}

attile_comm_device device_of(const TransportSetup &setup) {
    attile_comm_device device{};
    device.struct_size = sizeof device;
    device.type = setup.device_type;
    device.index = setup.device_index;
    device.context = setup.context;
    device.alloc = on_device<attile_alloc>;
    device.free = on_device<attile_free>;
    device.copy = on_device<attile_copy>;
    device.memory_kind = on_device<attile_memory_kind>;
    device.stream_create = on_device<attile_stream_create>;
    device.stream_destroy = on_device<attile_stream_destroy>;
    return device;
}

// What the plugin gave is looked at before it is used.
int32_t check_plugin_link(const TransportPlugin &plugin, const attile_comm_plugin_link &link, const attile_comm_callbacks &calls) {
    const char *wrong = nullptr;
    if (link.ranks < 1 || link.ranks > kMostRanks || link.rank < 0 || link.rank >= link.ranks) wrong = "its rank or ranks are out of range";
    if (calls.send == nullptr || calls.receive == nullptr || calls.wait == nullptr) wrong = "it lacks send, receive or wait";
    if (wrong == nullptr) return ATTILE_OK;
    return fail(ATTILE_ERROR_BACKEND_CONTRACT, "comm_create: transport '%s' (%s): %s", plugin.name.c_str(), plugin.where.c_str(), wrong);
}

}  // namespace

int32_t open_plugin(const TransportKind &kind, TransportSetup *setup, Transport *transport) {
    int32_t status = ATTILE_OK;
    const TransportPlugin *plugin = choose_transport(kind, &status);
    if (plugin == nullptr) return status;
    attile_comm_plugin_options options{};
    options.struct_size = sizeof options;
    options.rank = setup->rank;
    options.ranks = setup->ranks;
    options.group = setup->group;
    options.communicator = setup->communicator;
    options.timeout_seconds = setup->timeout;
    const attile_comm_device device = device_of(*setup);
    options.device = &device;
    attile_comm_plugin_link link{};
    link.struct_size = sizeof link;
    attile_comm_callbacks calls{};
    calls.struct_size = sizeof calls;
    link.calls = &calls;
    std::string why;
    status = call_backend(&why, [&] { return plugin->root.open(&options, &link); });
    if (status != ATTILE_OK) return fail(status, "comm_create: %s", why.c_str());
    status = check_plugin_link(*plugin, link, calls);
    if (status != ATTILE_OK) {
        plugin->root.close(calls.user);
        return status;
    }
    log(ATTILE_LOG_INFO, "transport '%s' %s opened (%s)", plugin->name.c_str(), plugin->version.c_str(), plugin->where.c_str());
    setup->rank = link.rank;
    setup->ranks = link.ranks;
    transport->call = calls;
    transport->close = plugin->root.close;
    transport->tells_why = (link.flags & ATTILE_COMM_PLUGIN_TELLS_WHY) != 0;
    transport->reaches_device = (link.flags & ATTILE_COMM_PLUGIN_REACHES_DEVICE) != 0;
    transport->flush = link.flush;
    return ATTILE_OK;
}

}  // namespace attile::core
