// SPDX-License-Identifier: Apache-2.0
// Runs grids: blocks by clusters, warps in turns, lanes that parted by their places in the program, those furthest behind first, so that
// they come together again.
#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "ptx_machine.h"

namespace attile::virtual_gpu {

void fault(const std::string &what) { throw std::runtime_error(what); }

namespace {

constexpr int kMostBlocks = 264;       // That run beside each other: two for each multiprocessor, where some wait for others.
constexpr int kTurn = 20000;           // Instructions of a warp before another one has its turn.
constexpr int kMostIdleRounds = 2000;  // In which every warp only waited.
constexpr int kLoopOfAWait = 64;       // Instructions that lead back to a wait are no progress.

// Clusters of earlier grids, whose memory the next ones take. Never destroyed: grids may run until the process ends.
class Spare {
  public:
    std::unique_ptr<Cluster> take() {
        const std::lock_guard<std::mutex> guard(lock_);
        if (clusters_.empty()) return std::make_unique<Cluster>();
        std::unique_ptr<Cluster> cluster = std::move(clusters_.back());
        clusters_.pop_back();
        blocks_ -= cluster->blocks.size();
        return cluster;
    }
    void give(std::unique_ptr<Cluster> cluster) {
        const std::lock_guard<std::mutex> guard(lock_);
        if (blocks_ + cluster->blocks.size() > kMostSpare) return;
        blocks_ += cluster->blocks.size();
        clusters_.push_back(std::move(cluster));
    }

  private:
    static constexpr std::size_t kMostSpare = 64;  // Blocks, of some MB.
    std::mutex lock_;
    std::size_t blocks_ = 0;
    std::vector<std::unique_ptr<Cluster>> clusters_;
};
Spare &spare() {
    static Spare &made = *new Spare;
    return made;
}

int bits_of(Mask lanes) { return __builtin_popcount(lanes); }

class Runner {
  public:
    explicit Runner(Grid &grid) : grid_(grid), code_(grid.kernel->code) {}

    void run() {
        const uint64_t clusters = uint64_t{grid_.blocks[0]} / grid_.cluster * grid_.blocks[1] * grid_.blocks[2];
        uint64_t begun = 0;
        int idle_rounds = 0;
        while (begun < clusters || !running_.empty()) {
            while (begun < clusters && static_cast<int>(running_.size() * grid_.cluster) < kMostBlocks) running_.push_back(begin(begun++));
            bool any = false;
            for (auto &cluster : running_)
                for (auto &block : cluster->blocks)
                    for (Warp &warp : block->warps)
                        if (warp.lanes != 0) any |= turn(warp);
            idle_rounds = any ? 0 : idle_rounds + 1;
            if (idle_rounds > kMostIdleRounds) fault("threads wait for what never comes: " + places());
            const auto has_ended = [&](const std::unique_ptr<Cluster> &cluster) {
                return cluster->ended == static_cast<int>(cluster->blocks.size()) * cluster->blocks[0]->threads;
            };
            for (auto &cluster : running_)
                if (has_ended(cluster)) spare_.push_back(std::move(cluster));
            running_.erase(std::remove(running_.begin(), running_.end(), nullptr), running_.end());
        }
        for (auto &cluster : spare_) spare().give(std::move(cluster));
    }

  private:
    std::unique_ptr<Cluster> begin(uint64_t number) {
        if (spare_.empty()) spare_.push_back(spare().take());
        std::unique_ptr<Cluster> cluster = std::move(spare_.back());
        spare_.pop_back();
        cluster->blocks.resize(grid_.cluster);
        for (std::unique_ptr<Block> &block : cluster->blocks)
            if (block == nullptr) block = std::make_unique<Block>();
        cluster->index = static_cast<uint32_t>(number);
        cluster->ended = 0;
        cluster->generation = 0;
        cluster->gathered.clear();
        cluster->released.clear();
        const uint32_t per_row = grid_.blocks[0] / grid_.cluster;
        for (uint32_t rank = 0; rank < grid_.cluster; ++rank) {
            Block &block = *cluster->blocks[rank];
            block.cluster = cluster.get();
            block.rank = static_cast<int>(rank);
            block.index[0] = static_cast<uint32_t>(number % per_row) * grid_.cluster + rank;
            block.index[1] = static_cast<uint32_t>(number / per_row % grid_.blocks[1]);
            block.index[2] = static_cast<uint32_t>(number / per_row / grid_.blocks[1]);
            block.shared_size = static_cast<std::size_t>(grid_.kernel->dynamic_shared_at) + grid_.dynamic_shared;
            block.memory.assign(block.shared_size + 1024, 0xff);
            block.written.assign(grid_.kernel->has_async_proxy ? block.shared_size / 16 + 1 : 0, {0, 0});
            block.writes = 0;
            block.writers.assign(block.shared_size / 4 + 1, {});
            block.reading = 0;
            block.transactions.clear();
            block.arrivals.clear();
            for (Block::Named &named : block.named) named = {};
            block.threads = static_cast<int>(grid_.threads[0] * grid_.threads[1] * grid_.threads[2]);
            block.ended = 0;
            block.warps.resize(static_cast<std::size_t>((block.threads + kLanes - 1) / kLanes));
            block.readers.assign(block.writers.size() * block.warps.size(), 0);
            for (std::size_t i = 0; i < block.warps.size(); ++i) begin_warp(block.warps[i], block, static_cast<int>(i));
        }
        return cluster;
    }

    void begin_warp(Warp &warp, Block &block, int number) {
        const Kernel &kernel = *grid_.kernel;
        warp.grid = &grid_;
        warp.block = &block;
        warp.number = number;
        begin_clocks(warp);
        warp.fenced = 0;
        warp.reading.clear();
        warp.reading_groups.clear();
        const int threads = std::min(block.threads - kLanes * number, kLanes);
        warp.lanes = threads == kLanes ? ~Mask{0} : (Mask{1} << threads) - 1;
        warp.paths.assign(1, Path{0, warp.lanes});
        warp.registers.assign(static_cast<std::size_t>(kernel.register_bytes) + 128, 0xff);
        warp.file = reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(warp.registers.data()) + 127) / 128 * 128);
        warp.local.assign(static_cast<std::size_t>(kernel.local_bytes) * kLanes, 0xff);
        warp.constants = kernel.constants.data();
        for (int lane = 0; lane < kLanes; ++lane) {
            warp.copies[lane].clear(), warp.groups[lane].clear(), warp.stores[lane].clear(), warp.store_groups[lane].clear();
            warp.is_waiting[lane] = false;
            warp.cluster_generation[lane] = 0;
        }
        for (const auto &[name, operand] : kernel.specials) {
            for (int lane = 0; lane < kLanes; ++lane) {
                if (operand.kind == Kind::kWide)
                    warp.row<uint64_t>(operand)[lane] = wide_special(name, warp, lane);
                else
                    warp.row<uint32_t>(operand)[lane] = special(name, warp, lane);
            }
        }
    }

    uint64_t wide_special(const std::string &name, const Warp &warp, int lane) const {
        if (name == "parameters") return reinterpret_cast<uint64_t>(grid_.parameters.data());
        const std::size_t plus = name.find('+');
        const std::size_t place = plus == std::string::npos ? 0 : std::stoul(name.substr(plus + 1));
        return reinterpret_cast<uint64_t>(warp.local.data() +
                                          static_cast<std::size_t>(lane) * static_cast<std::size_t>(grid_.kernel->local_bytes) + place);
    }

    uint32_t special(const std::string &name, const Warp &warp, int lane) const {
        const uint32_t thread = static_cast<uint32_t>(warp.number * kLanes + lane);
        const uint32_t per_row = grid_.threads[0], per_plane = per_row * grid_.threads[1];
        const std::size_t dot = name.rfind('.');
        const std::string stem = name.substr(0, dot);
        const int axis = dot == std::string::npos ? 0 : name[dot + 1] - 'x';
        const Block &block = *warp.block;
        if (stem == "%tid") return axis == 0 ? thread % per_row : axis == 1 ? thread % per_plane / per_row : thread / per_plane;
        if (stem == "%ntid") return grid_.threads[axis];
        if (stem == "%ctaid") return block.index[axis];
        if (stem == "%nctaid") return grid_.blocks[axis];
        if (stem == "%clusterid") return axis == 0 ? block.index[0] / grid_.cluster : block.index[axis];
        if (stem == "%nclusterid") return axis == 0 ? grid_.blocks[0] / grid_.cluster : grid_.blocks[axis];
        if (stem == "%cluster_ctarank") return static_cast<uint32_t>(block.rank);
        if (stem == "%cluster_nctarank") return grid_.cluster;
        if (stem == "%laneid") return static_cast<uint32_t>(lane);
        if (stem == "%warpid") return static_cast<uint32_t>(warp.number);
        fault("the register " + name + " is not known");
    }

    // Lets the warp go on as far as it can. False: it only waited.
    bool turn(Warp &warp) {
        for (Path &path : warp.paths) path.has_yielded = false;
        if (warp.paths.size() > 1) gather(warp);
        int left = kTurn;
        has_gone_on_ = false;
        while (left > 0 && warp.lanes != 0) {
            Path *path = nullptr;
            for (Path &one : warp.paths)
                if (!one.has_yielded && (path == nullptr || one.at < path->at)) path = &one;
            if (path == nullptr) break;
            follow(warp, *path, &left);
        }
        return has_gone_on_ || left <= 0;
    }

    // One path, until it waits, meets another or has others behind it.
    void follow(Warp &warp, Path &path, int *left) {
        while (*left > 0) {
            const Instruction &instruction = code_[static_cast<std::size_t>(path.at)];
            Mask lanes = path.lanes;
            if (instruction.guard.kind != Kind::kNone) lanes &= warp.predicate(instruction.guard);
            --*left;
            if (path.since_wait > kLoopOfAWait)
                has_gone_on_ = true;
            else
                ++path.since_wait;
            if (instruction.is_branch || instruction.is_end) {
                if (instruction.is_end) {
                    has_gone_on_ = true;
                    end(warp, path, lanes);
                    return;
                }
                branch(warp, path, lanes, instruction.target);
                if (warp.paths.size() > 1) {
                    gather(warp);
                    return;
                }
                continue;
            }
            if (instruction.is_together && lanes != 0 && path.lanes != warp.lanes) {
                if (warp.paths.size() == 1) fault("lanes of a warp do not meet" + where(instruction));
                path.has_yielded = true;
                path.since_wait = 0;
                return;
            }
            Outcome outcome = Outcome::kNext;
            if (lanes != 0) {
                try {
                    outcome = instruction.run(warp, instruction, lanes);
                } catch (const std::runtime_error &error) {
                    fault(error.what() + where(instruction) + ", block " + std::to_string(warp.block->index[0]) + ", warp " +
                          std::to_string(warp.number));
                }
            }
            if (outcome == Outcome::kRest) {
                ++path.at;
                *left = 0;
                return;
            }
            if (outcome == Outcome::kNext && path.at == path.waited_at) has_gone_on_ = true;  // What it waited for came.
            if (outcome != Outcome::kNext) path.waited_at = path.at;
            if (outcome != Outcome::kWait) ++path.at;
            if (outcome != Outcome::kNext) {
                path.has_yielded = true;
                path.since_wait = 0;
                if (warp.paths.size() > 1) gather(warp);
                return;
            }
            if (warp.paths.size() > 1 && gather(warp)) return;
        }
    }

    // Joins paths that are at one place. True: the path that was followed may be another one now, or is no longer the last.
    bool gather(Warp &warp) {
        std::vector<Path> &paths = warp.paths;
        bool joined = false;
        for (std::size_t i = 0; i < paths.size(); ++i) {
            for (std::size_t j = i + 1; j < paths.size();) {
                if (paths[j].at != paths[i].at) {
                    ++j;
                    continue;
                }
                paths[i].lanes |= paths[j].lanes;
                paths[i].has_yielded = false;
                paths[i].since_wait = std::max(paths[i].since_wait, paths[j].since_wait);
                paths.erase(paths.begin() + static_cast<std::ptrdiff_t>(j));
                joined = true;
            }
        }
        return joined || paths.size() > 1;
    }

    static void branch(Warp &warp, Path &path, Mask lanes, int32_t target) {
        if (lanes == path.lanes) {
            path.at = target;
        } else if (lanes == 0) {
            ++path.at;
        } else {
            path.lanes &= ~lanes;
            ++path.at;
            warp.paths.push_back(Path{target, lanes, false, path.since_wait, path.waited_at});  // `path` is no more.
        }
    }

    static void end(Warp &warp, Path &path, Mask lanes) {
        Block &block = *warp.block;
        for_lanes(lanes, [&](int lane) { finish_stores(warp, lane); });
        warp.lanes &= ~lanes;
        if (warp.lanes == 0 && (!warp.reading.empty() || !warp.reading_groups.empty()))
            fault("a warp ends with products that it did not wait for");
        block.ended += bits_of(lanes);
        block.cluster->ended += bits_of(lanes);
        if (block.ended == block.threads) {
            for (const auto &[address, barrier] : block.transactions)
                if (!barrier.late.empty()) fault("a block ends with copies on their way to it");
            expect_all_arrived(block);
        }
        cluster_ended(*block.cluster);
        path.lanes &= ~lanes;
        ++path.at;
        if (path.lanes == 0) warp.paths.erase(warp.paths.begin() + (&path - warp.paths.data()));
    }

    std::string where(const Instruction &instruction) const {
        return ", at line " + std::to_string(instruction.line) + " of " + grid_.kernel->name;
    }

    std::string places() const {
        std::string text = grid_.kernel->name;
        for (const auto &cluster : running_)
            for (const auto &block : cluster->blocks) {
                text += "; block " + std::to_string(block->index[0]) + ":";
                for (const Warp &warp : block->warps) {
                    text += " ";
                    for (const Path &path : warp.paths) text += "/" + std::to_string(code_[static_cast<std::size_t>(path.at)].line);
                }
            }
        return text.substr(0, 2000);
    }

    bool has_gone_on_ = false;  // In this turn, as more than a loop around a wait.
    Grid &grid_;
    const std::vector<Instruction> &code_;
    std::vector<std::unique_ptr<Cluster>> running_, spare_;  // spare_: of this grid.
};

}  // namespace

void run_grid(Grid &grid) { Runner(grid).run(); }

}  // namespace attile::virtual_gpu
