// SPDX-License-Identifier: Apache-2.0
// The tables by which ONNX Runtime knows an execution provider: the factory, a session's provider, and the nodes that it compiled.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "kernels.h"

namespace attile::onnxruntime {
namespace {

constexpr char kVendor[] = "Attile";

// What ONNX Runtime calls goes through here: nothing is thrown to it.
template <typename Function>
OrtStatus *guarded(const OrtApi *api, const Function &function) noexcept {
    try {
        function();
        return nullptr;
    } catch (const Failure &failure) {
        return api->CreateStatus(failure.code, failure.sentence.c_str());
    } catch (const std::bad_alloc &) {
        return api->CreateStatus(ORT_FAIL, "Attile: no host memory");
    } catch (const std::exception &exception) {
        return api->CreateStatus(ORT_FAIL, exception.what());
    }
}

// A node that was compiled.
struct Compiled : OrtNodeComputeInfo {
    Runtime runtime;
    std::unique_ptr<Kernel> kernel;
    Places places;

    explicit Compiled(const Runtime &given) : OrtNodeComputeInfo{}, runtime(given) {
        ort_version_supported = kApiVersion;
        CreateState = [](OrtNodeComputeInfo *self, OrtNodeComputeContext *, void **state) noexcept -> OrtStatus * {
            *state = self;  // A call needs no state of its own.
            return nullptr;
        };
        Compute = [](OrtNodeComputeInfo *self, void *, OrtKernelContext *context) noexcept -> OrtStatus * {
            const auto &compiled = *static_cast<const Compiled *>(self);
            return guarded(compiled.runtime.api, [&] { compiled.kernel->compute(Call(compiled.runtime, context, compiled.places)); });
        };
        ReleaseState = [](OrtNodeComputeInfo *, void *) noexcept {};
    }
};

// Where each of `names` stands in `list`; -1: nowhere.
std::vector<int> places_in(const std::vector<Declared> &list, const std::vector<Declared> &names) {
    std::vector<int> places;
    for (const Declared &name : names) {
        const auto found = std::find_if(list.begin(), list.end(), [&](const Declared &other) { return other.name == name.name; });
        places.push_back(!name.present() || found == list.end() ? -1 : static_cast<int>(found - list.begin()));
    }
    return places;
}

std::vector<const OrtNode *> nodes_of(const Runtime &runtime, const OrtGraph *graph) {
    size_t count = 0;
    check(runtime, runtime.api->Graph_GetNumNodes(graph, &count));
    std::vector<const OrtNode *> nodes(count);
    if (count > 0) check(runtime, runtime.api->Graph_GetNodes(graph, nodes.data(), count));
    return nodes;
}

// The provider of one session.
struct Provider : OrtEp {
    Runtime runtime;
    std::string name;
    const OrtLogger *logger;
    attile_context *context = nullptr;
    std::vector<std::string> logged;

    Provider(const Runtime &given, const std::string &registered_name, const OrtLogger *session_logger)
        : OrtEp{}, runtime(given), name(registered_name), logger(session_logger) {
        ort_version_supported = kApiVersion;
        GetName = [](const OrtEp *self) noexcept { return static_cast<const Provider *>(self)->name.c_str(); };
        GetCapability = [](OrtEp *self, const OrtGraph *graph, OrtEpGraphSupportInfo *claims) noexcept -> OrtStatus * {
            auto &provider = *static_cast<Provider *>(self);
            return guarded(provider.runtime.api, [&] { provider.claim(graph, claims); });
        };
        Compile = [](OrtEp *self, const OrtGraph **graphs, const OrtNode **fused, size_t count, OrtNodeComputeInfo **made,
                     OrtNode **) noexcept -> OrtStatus * {
            auto &provider = *static_cast<Provider *>(self);
            return guarded(provider.runtime.api, [&] {
                std::vector<std::unique_ptr<Compiled>> all;
                for (size_t i = 0; i < count; ++i) all.push_back(provider.compile(graphs[i], fused[i]));
                for (size_t i = 0; i < count; ++i) made[i] = all[i].release();
            });
        };
        ReleaseNodeComputeInfos = [](OrtEp *, OrtNodeComputeInfo **made, size_t count) noexcept {
            for (size_t i = 0; i < count; ++i) delete static_cast<Compiled *>(made[i]);
        };
    }
    Provider(const Provider &) = delete;
    Provider &operator=(const Provider &) = delete;
    ~Provider() { attile_context_destroy(context); }

    // Warns of a node of an operator that Attile has, which is left to another provider: once for each operator and reason.
    void log_refusal(const Node &node, const std::string &reason) {
        const std::string line = "Attile leaves " + node.op() + " to another provider: " + reason;
        if (std::find(logged.begin(), logged.end(), line) != logged.end()) return;
        logged.push_back(line);
        check(runtime,
              runtime.api->Logger_LogMessage(logger, ORT_LOGGING_LEVEL_WARNING, line.c_str(), ORT_FILE, __LINE__, "GetCapability"));
    }

    void claim(const OrtGraph *graph, OrtEpGraphSupportInfo *claims) {
        for (const OrtNode *handle : nodes_of(runtime, graph)) {
            const Node node(runtime, handle);
            const Maker make = find_maker(node);
            if (make == nullptr) continue;
            try {
                (void)make(node, context);
            } catch (const Refusal &refusal) {
                log_refusal(node, refusal.reason);
                continue;
            }
            OrtNodeFusionOptions options = {};
            options.ort_version_supported = kApiVersion;
            check(runtime, runtime.ep->EpGraphSupportInfo_AddNodesToFuse(claims, &handle, 1, &options));
        }
    }

    std::unique_ptr<Compiled> compile(const OrtGraph *graph, const OrtNode *fused) const {
        const std::vector<const OrtNode *> nodes = nodes_of(runtime, graph);
        if (nodes.size() != 1) throw Failure{ORT_FAIL, "Attile: a graph has " + std::to_string(nodes.size()) + " nodes, expected 1"};
        const Node node(runtime, nodes[0]), outer(runtime, fused);
        const Maker make = find_maker(node);
        if (make == nullptr) throw Failure{ORT_FAIL, "Attile: " + node.op() + " was not claimed, expected operators that were"};
        auto compiled = std::make_unique<Compiled>(runtime);
        try {
            compiled->kernel = make(node, context);
        } catch (const Refusal &refusal) {
            throw Failure{ORT_FAIL, "Attile: " + node.op() + " was claimed, but " + refusal.reason};
        }
        compiled->places = {places_in(outer.inputs(), node.inputs()), places_in(outer.outputs(), node.outputs())};
        return compiled;
    }
};

// The option of that name; empty if it is not given.
std::string read_option(const Runtime &runtime, const OrtSessionOptions *session, const std::string &key) {
    int given = 0;
    check(runtime, runtime.api->HasSessionConfigEntry(session, key.c_str(), &given));
    if (given == 0) return {};
    size_t size = 0;
    check(runtime, runtime.api->GetSessionConfigEntry(session, key.c_str(), nullptr, &size));
    std::string value(size, '\0');
    check(runtime, runtime.api->GetSessionConfigEntry(session, key.c_str(), value.data(), &size));
    return value.c_str();  // Without the terminating 0, which is counted.
}

struct Factory : OrtEpFactory {
    Runtime runtime;
    std::string name;

    Factory(const Runtime &given, const char *registered_name) : OrtEpFactory{}, runtime(given), name(registered_name) {
        ort_version_supported = kApiVersion;
        OrtEpFactory::GetName = [](const OrtEpFactory *self) noexcept { return static_cast<const Factory *>(self)->name.c_str(); };
        GetVendor = [](const OrtEpFactory *) noexcept -> const char * { return kVendor; };
        GetVendorId = [](const OrtEpFactory *) noexcept -> uint32_t { return 0; };
        GetVersion = [](const OrtEpFactory *) noexcept -> const char * { return ATTILE_PLUGIN_VERSION; };
        GetSupportedDevices = [](OrtEpFactory *self, const OrtHardwareDevice *const *devices, size_t count, OrtEpDevice **made, size_t most,
                                 size_t *number) noexcept -> OrtStatus * {
            auto &factory = *static_cast<Factory *>(self);
            return guarded(factory.runtime.api, [&] { *number = factory.list_devices(devices, count, made, most); });
        };
        CreateEp = [](OrtEpFactory *self, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *, size_t,
                      const OrtSessionOptions *session, const OrtLogger *logger, OrtEp **made) noexcept -> OrtStatus * {
            auto &factory = *static_cast<Factory *>(self);
            return guarded(factory.runtime.api, [&] { *made = factory.make_provider(session, logger).release(); });
        };
        ReleaseEp = [](OrtEpFactory *, OrtEp *made) noexcept { delete static_cast<Provider *>(made); };
        CreateAllocator = [](OrtEpFactory *, const OrtMemoryInfo *, const OrtKeyValuePairs *, OrtAllocator **made) noexcept -> OrtStatus * {
            *made = nullptr;  // ONNX Runtime's own memory of the host serves.
            return nullptr;
        };
        ReleaseAllocator = [](OrtEpFactory *, OrtAllocator *) noexcept {};
        CreateDataTransfer = [](OrtEpFactory *, OrtDataTransferImpl **made) noexcept -> OrtStatus * {
            *made = nullptr;
            return nullptr;
        };
        IsStreamAware = [](const OrtEpFactory *) noexcept { return false; };
    }

    // The processor, since tensors are in its memory, whatever Attile's backend.
    size_t list_devices(const OrtHardwareDevice *const *devices, size_t count, OrtEpDevice **made, size_t most) {
        size_t number = 0;
        for (size_t i = 0; i < count && number < std::min<size_t>(most, 1); ++i) {
            if (runtime.api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
            check(runtime, runtime.ep->CreateEpDevice(this, devices[i], nullptr, nullptr, &made[number]));
            ++number;
        }
        return number;
    }

    std::unique_ptr<Provider> make_provider(const OrtSessionOptions *session, const OrtLogger *logger) const;
};

// ONNX Runtime writes "ep.", the provider's name in small letters, and "." before the name of an option.
std::string option_key(const std::string &provider, const char *option) {
    std::string key = "ep." + provider + ".";
    for (char &letter : key) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    return key + option;
}

std::unique_ptr<Provider> Factory::make_provider(const OrtSessionOptions *session, const OrtLogger *logger) const {
    const std::string backend = read_option(runtime, session, option_key(name, "backend"));
    const std::string threads = read_option(runtime, session, option_key(name, "threads"));
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    if (!threads.empty()) {
        const auto [end, error] = std::from_chars(threads.data(), threads.data() + threads.size(), options.threads);
        if (error != std::errc() || end != threads.data() + threads.size() || options.threads < 0) {
            throw Failure{ORT_INVALID_ARGUMENT, "Attile: the option threads is '" + threads + "', expected a whole number from 0 on"};
        }
    }
    // Unset, it is the cpu backend: tensors are in host memory, and a GPU would have to copy them for every node.
    const char *chosen = std::getenv("ATTILE_BACKEND");
    if (!backend.empty()) {
        options.backend = backend.c_str();
    } else if (chosen == nullptr || chosen[0] == '\0') {
        options.backend = "cpu";
    }
    auto provider = std::make_unique<Provider>(runtime, name, logger);
    check_attile(attile_context_create(&options, &provider->context));
    return provider;
}

// The second number of a release 1.x; -1 of others.
int minor_of(const OrtApiBase *base) {
    int major = 0, minor = 0;
    return std::sscanf(base->GetVersionString(), "%d.%d", &major, &minor) == 2 && major == 1 ? minor : -1;
}

// Empty for a release whose interface the plugin was written for, else the sentence.
std::string refuse_version(const OrtApiBase *base) {
    if (minor_of(base) >= kOldestMinor && base->GetApi(kApiVersion) != nullptr) return {};
    return std::string("Attile: ONNX Runtime is version ") + base->GetVersionString() + ", expected 1." + std::to_string(kOldestMinor) +
           " or later, below 2";
}

// NULL where the release is older: asked for a version that it lacks, ONNX Runtime prints.
const OrtApi *api_with_shapes(const OrtApiBase *base) {
    return minor_of(base) >= static_cast<int>(kShapeApiVersion) ? base->GetApi(kShapeApiVersion) : nullptr;
}

}  // namespace
}  // namespace attile::onnxruntime

#define ATTILE_EXPORT extern "C" __attribute__((visibility("default")))

ATTILE_EXPORT OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *base, const OrtLogger *, OrtEpFactory **factories,
                                           size_t most, size_t *number) {
    using namespace attile::onnxruntime;
    const OrtApi *api = base->GetApi(kApiVersion);
    *number = 0;
    // CreateStatus is the first function of the table in every version.
    const OrtApi *any = api != nullptr ? api : base->GetApi(1);
    if (any == nullptr) return nullptr;  // There is no way to say more than that there is no factory.
    return guarded(any, [&] {
        const std::string refusal = refuse_version(base);
        if (!refusal.empty()) throw Failure{ORT_FAIL, refusal};
        if (most < 1) throw Failure{ORT_INVALID_ARGUMENT, "Attile: max_factories is 0, expected 1 or more"};
        factories[0] = std::make_unique<Factory>(Runtime{api, api->GetEpApi(), api_with_shapes(base)}, registered_name).release();
        *number = 1;
    });
}

ATTILE_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
    delete static_cast<attile::onnxruntime::Factory *>(factory);
    return nullptr;
}
