// SPDX-License-Identifier: Apache-2.0
// A GPU that is a program: it reads the PTX that the compiler made of a kernel and runs it, lane by lane, with the memory of the process as
// the device's. Tensor cores, TMA and clusters are there, time is not. Copies come as late as they may and leave NaN in their
// place until then, memory begins as NaN, and every access is checked. Faults besides: threads that wait for what never comes, writing what
// wgmma may still read, having TMA or tensor cores read what threads wrote to shared memory without a fence, warps at one word of shared
// memory in no order, and a block that ends before it knows that another one's arrivals at its barriers are there. What it does not find:
// fences missing around global memory, sums of wgmma that are used before they are waited for (products are done when they are issued, as
// registers tied by the compiler want), and lanes of one warp at one word, or blocks at one of global memory, in no order.
//
// ptx_module.cpp finds kernels in a module's text, ptx_read.cpp makes a Kernel of one, ptx_places.cpp gives its registers places,
// machine.cpp runs it. What instructions do stands in plain.cpp (arithmetic), convert.cpp, load_store.cpp, together.cpp (lanes and warps
// with each other), products.cpp, reading.cpp and matrix.cpp (tensor cores), async.cpp (copies, transaction barriers, clusters) and
// tma.cpp; races.cpp has the orders of warps. runtime.cpp is the CUDA runtime above it, driver.cpp the driver, dealt_memory.cpp the
// memory that they deal out.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attile::virtual_gpu {

inline constexpr int kLanes = 32;
using Mask = uint32_t;  // A bit for each lane; a predicate's value, too.

// Ends the kernel: thrown as std::runtime_error, with these words.
[[noreturn]] void fault(const std::string &what);

enum class Kind : uint8_t {
    kNone,       // "_".
    kNarrow,     // A register of up to 32 bits: a row of 32 uint32_t. 16-bit values have zeros above them.
    kWide,       // A register of 64 bits: a row of 32 uint64_t.
    kPredicate,  // A Mask.
};

struct Operand {
    Kind kind = Kind::kNone;
    bool is_constant = false;  // A row (or Mask) of the kernel's constants; else of the warp's registers.
    bool is_negated = false;   // Predicates: "!%p1".
    int32_t place = 0;         // Bytes into them. Before registers have places, the register's number.
};

// What an instruction is written with: one operand, several in braces, or an address, whose `braces` are a tensor's coordinates.
struct Argument {
    Operand value;  // Or the address's base.
    std::vector<Operand> braces;
    bool is_address = false;
    int64_t offset = 0;  // To be added to the base.
    Operand second;      // "%r1|%p2": the predicate.
};

struct Warp;
struct Instruction;

enum class Outcome {
    kNext,   // Done.
    kYield,  // Done, and others should have a turn before the next one: a wait that was tried in vain.
    kWait,   // Not done: to be tried again after others had a turn.
    kRest,   // Done, and the warp's turn ends.
};
using Run = Outcome (*)(Warp &warp, const Instruction &instruction, Mask lanes);

struct Instruction {
    Run run = nullptr;
    Operand guard;             // kNone: for all lanes.
    bool is_together = false;  // All lanes of the warp that have not ended must be there: shuffles, products, ".aligned".
    bool is_branch = false, is_end = false;
    bool writes_first = false, reads_first = false;  // The first argument: for what lives how long.
    int32_t target = -1;                             // Branches: the instruction.
    std::vector<Argument> arguments;
    int64_t number[4] = {0, 0, 0, 0};  // Whatever the one who decodes wants to keep.
    int32_t line = 0;                  // Of the text.
};

// "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16" in parts.
struct Opcode {
    std::vector<std::string_view> parts;
    bool is(std::string_view first) const { return parts[0] == first; }
    bool has(std::string_view part) const {
        for (const std::string_view &p : parts)
            if (p == part) return true;
        return false;
    }
};

// Each sets `run` (and `number`, `is_together`) for opcodes of its file and says whether it knows the opcode.
bool decode_plain(const Opcode &opcode, Instruction *instruction);
bool decode_together(const Opcode &opcode, Instruction *instruction);
bool decode_tensor(const Opcode &opcode, Instruction *instruction);
bool decode_async(const Opcode &opcode, Instruction *instruction);

struct Kernel {
    std::string name;
    std::vector<Instruction> code;
    std::vector<Kind> registers;           // By number, until they have places.
    int32_t register_bytes = 0;            // Of a warp.
    std::vector<unsigned char> constants;  // Rows.
    struct Parameter {
        std::size_t offset, bytes;
    };
    std::vector<Parameter> parameters;
    int32_t local_bytes = 0, shared_bytes = 0;  // Shared: those that the kernel declares.
    int32_t dynamic_shared_at = 0;              // Where an extern array in shared memory begins.
    int32_t most_threads = 1024, fewest_blocks = 1;
    bool has_async_proxy = false;  // Something in it reads shared memory by another way than threads do.
    std::unordered_map<std::string, uint64_t> symbols;
    std::vector<std::pair<std::string, Operand>> specials;  // "%tid.x" and the like, and the register that a warp finds it in.
};

// By warp of the cluster: how far one has heard of the others (races.cpp).
using Clocks = std::vector<uint32_t>;

// A transaction barrier in shared memory.
struct TransactionBarrier {
    int64_t count = 0, pending = 0, bytes = 0;  // Arrivals a phase takes and those missing, and bytes that were expected and have not come.
    uint32_t phase = 0;                         // How many have ended.
    std::deque<std::function<void()>> late;     // Copies that are to arrive here, each of which takes off its own `bytes`.
    Clocks gathered, released;                  // In this phase, and when the last one ended.
};

struct Cluster;

struct Block {
    Cluster *cluster = nullptr;
    int rank = 0;  // In the cluster.
    uint32_t index[3] = {0, 0, 0};
    std::vector<unsigned char> memory;  // Shared; address 0 is shared_base().
    unsigned char *shared_base() {
        return reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(memory.data()) + 1023) / 1024 * 1024);
    }
    std::size_t shared_size = 0;
    std::unordered_map<uint32_t, TransactionBarrier> transactions;  // By address.
    struct Named {
        int arrived = 0;  // Threads.
        uint32_t generation = 0;
        bool all = true, any = false;  // bar.red
        bool last_all = true, last_any = false;
        Clocks gathered, released;  // In this generation, and when the last one ended.
    } named[16];
    std::vector<Warp> warps;
    int threads = 0, ended = 0;  // Ended threads.
    int reading = 0;             // How many runs of bytes its warps' products may still read.
    // Who last wrote each 16 bytes as threads do, and when, counted in `writes`; 0: nobody. Empty where nothing reads them otherwise.
    struct Written {
        uint32_t order, warp;
    };
    std::vector<Written> written;
    uint32_t writes = 0;
    // Of each word its last writer, a warp of the cluster, others that wrote the same since, and when the block's warps read it since.
    struct Writer {
        uint32_t warp, clock;
    };
    struct Writers {
        Writer first, others[3];  // Clock 0: none.
    };
    std::vector<Writers> writers;
    std::vector<uint32_t> readers;  // [word][warp]
    Clocks arrivals;                // When warps of other blocks last arrived at one of its transaction barriers.
};

struct Cluster {
    std::vector<std::unique_ptr<Block>> blocks;
    uint32_t index = 0;       // Linear, of the grid's clusters.
    uint32_t generation = 0;  // Of its barrier.
    Clocks gathered, released;
    int ended = 0;  // Threads.
};

struct Grid {
    const Kernel *kernel = nullptr;
    uint32_t blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1};
    uint32_t cluster = 1;  // Blocks a cluster, along x.
    std::size_t dynamic_shared = 0;
    std::vector<unsigned char> parameters;
};

// Lanes that are at one place of the program.
struct Path {
    int32_t at = 0;
    Mask lanes = 0;
    bool has_yielded = false;  // In this turn.
    int since_wait = 0;        // Instructions since it last had to wait,
    int32_t waited_at = -1;    // and where that was.
};

// Of a block's shared memory.
struct Bytes {
    uint32_t first, end;
};

struct Warp {
    Grid *grid = nullptr;
    Block *block = nullptr;
    int number = 0;  // In the block.
    Mask lanes = 0;  // That have not ended.
    std::vector<Path> paths;
    std::vector<unsigned char> registers, local;
    const unsigned char *constants = nullptr;
    unsigned char *file = nullptr;  // `registers`, aligned.
    // What instructions remember from one to the next.
    std::vector<std::function<void()>> copies[kLanes];              // cp.async since the last commit,
    std::deque<std::vector<std::function<void()>>> groups[kLanes];  // committed groups, the oldest first;
    std::vector<std::function<void()>> stores[kLanes];              // and cp.async.bulk stores likewise.
    std::deque<std::vector<std::function<void()>>> store_groups[kLanes];
    std::vector<Bytes> reading;                     // What wgmma's products since the last commit may read,
    std::deque<std::vector<Bytes>> reading_groups;  // and committed ones, the oldest first.
    Clocks clocks, at_fence;                        // Now, and at its last fence, which is all that a relaxed arrival tells.
    uint32_t fenced = 0;                            // The block's writes at its last fence.proxy.async.
    uint32_t waiting_for[kLanes] = {};              // Named barriers: the generation, where `is_waiting`.
    bool is_waiting[kLanes] = {};
    uint32_t cluster_generation[kLanes] = {};  // barrier.cluster.arrive's, for the wait.

    // An operand's row. T is uint32_t, float or int32_t for narrow ones, uint64_t, int64_t or double for wide ones.
    template <class T>
    T *row(const Operand &operand) const {
        return reinterpret_cast<T *>((operand.is_constant ? const_cast<unsigned char *>(constants) : file) + operand.place);
    }
    Mask predicate(const Operand &operand) const {
        const Mask value = *row<Mask>(operand);
        return operand.is_negated ? ~value : value;
    }
    void set_predicate(const Operand &operand, Mask value, Mask which) const {
        if (operand.kind == Kind::kNone) return;
        Mask *to = row<Mask>(operand);
        *to = (*to & ~which) | (value & which);
    }
    // An address argument's value in one lane: 32-bit bases are zero-extended.
    uint64_t address(const Argument &argument, int lane) const {
        const uint64_t base = argument.value.kind == Kind::kWide     ? row<uint64_t>(argument.value)[lane]
                              : argument.value.kind == Kind::kNarrow ? row<uint32_t>(argument.value)[lane]
                                                                     : 0;
        return base + static_cast<uint64_t>(argument.offset);
    }
};

template <class Do>
void for_lanes(Mask lanes, const Do &act) {
    if (lanes == ~Mask{0}) {
        for (int lane = 0; lane < kLanes; ++lane) act(lane);
    } else {
        for (Mask rest = lanes; rest != 0; rest &= rest - 1) act(__builtin_ctz(rest));
    }
}

// Addresses. A 32-bit address of shared memory is an offset into the block's own, or, with (rank + 1) << 24 added as mapa does, into that
// of another block of the cluster. A generic 64-bit address of shared memory is kSharedWindow plus that. All else is the process's memory.
inline constexpr uint64_t kSharedWindow = uint64_t{0x7e} << 56;
inline constexpr int kRankShift = 24;

// The block of the cluster that a 32-bit shared address is in, and the address without its rank.
Block &block_of(Block &own, uint32_t address, uint32_t *offset);
// Checked memory; each faults with words where it is not the kernel's to touch, or the address is no multiple of `alignment`.
unsigned char *shared_at(Block &own, uint64_t address, std::size_t bytes, std::size_t alignment);
unsigned char *global_at(uint64_t address, std::size_t bytes, std::size_t alignment, bool writes);
// Orders of warps (races.cpp). A barrier gathers what those know who arrive, and those who wait hear of it.
void begin_clocks(Warp &warp);
void release_to(Warp &warp, Clocks &gathered);
// The warp's lanes arrive at a barrier of another block. Such an arrival is on its way until a warp of that block has heard of it, and must
// not find the block ended.
void arrive_at(const Warp &warp, Block &other);
void expect_all_arrived(const Block &block);
// What a relaxed arrival at the cluster's barrier tells: that the warp has come here, but nothing of what it did after its last fence.
void fence(Warp &warp);
void release_fenced_to(const Warp &warp, Clocks &gathered);
void acquire_from(Warp &warp, const Clocks &released);
// Faults if somebody touched any of the words in no order with this. Of its own block's shared memory; of a block of the cluster.
void read_words(const Warp &warp, std::size_t first, std::size_t bytes);
void write_words(const Warp &warp, Block &block, std::size_t first, std::size_t bytes);
// The same for what is there already, which anybody may write and be sure of.
void write_again(const Warp &warp, std::size_t first, std::size_t bytes);
// A thread writes bytes to the block's shared memory. Faults if products that nobody has waited for may read them, or others touched them
// in no order with this, unless they are what was there before.
void write_shared(Warp &warp, unsigned char *to, const void *from, std::size_t bytes);
// What a generic address points to, shared or not; `warp` for its local memory and the kernel's parameters.
unsigned char *generic_at(Warp &warp, uint64_t address, std::size_t bytes, std::size_t alignment, bool writes);

// Memory that the runtime deals out: what kernels may touch. Begins as 0xff bytes. Thread-safe.
void *allocate(std::size_t bytes);
bool release(void *pointer);
bool is_allocated(const void *pointer, std::size_t bytes);  // All of it within one allocation.

// The kernel of a name in a module's PTX; faults with the reason where it cannot be read. Reading is put off until a kernel is asked for.
class Module {
  public:
    explicit Module(std::string text);
    ~Module();
    const Kernel *find(const std::string &name);  // Null: the module has none of this name.

  private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

// Runs the grid to its end. Throws std::runtime_error with what went wrong. One at a time.
void run_grid(Grid &grid);

// When a lane ends: performs its committed groups of TMA's stores.
void finish_stores(Warp &warp, int lane);
// When threads have ended, their lanes no longer in Warp::lanes: those that wait at the cluster's barrier may have waited for them only.
void cluster_ended(Cluster &cluster);

// A tensor map of TMA, as runtime.cpp's cuTensorMapEncodeTiled writes it into the 128 opaque bytes of a CUtensorMap.
struct TensorMap {
    uint64_t base;
    uint64_t stride[4];  // Bytes, of axes 1...
    uint32_t extent[5];  // Elements, innermost axis first; axes beyond `axes` have 1.
    uint16_t box[5];
    uint8_t axes, element_bytes, swizzle;  // As CUtensorMapSwizzle has it: 0 none, 1 32B, 2 64B, 3 128B.
};
static_assert(sizeof(TensorMap) <= 128, "fits a CUtensorMap");

// 16-bit floats.
float from_f16(uint16_t bits);
uint16_t to_f16(float x);  // Rounded to nearest even.
inline float from_bf16(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float x;
    __builtin_memcpy(&x, &wide, sizeof x);
    return x;
}
uint16_t to_bf16(float x);

}  // namespace attile::virtual_gpu
