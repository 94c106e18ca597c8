// SPDX-License-Identifier: Apache-2.0
use crate::context::text;
use crate::error::check;
use crate::launch::initialised;
use crate::transport::{Bridge, Transport};
use crate::{Context, Result};
use attile_sys as sys;
use std::os::raw::c_void;
use std::ptr;
use std::time::Duration;

/// How the rows of a sequence are spread over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// Rank after rank.
    Contiguous,
    /// Each rank has an early and a late chunk, so that a causal mask gives all the same work.
    Zigzag,
    /// Rank r of P has positions r, r + P, r + 2 P, ...
    Striped,
}

impl Shards {
    pub(crate) fn number(self) -> i32 {
        match self {
            Shards::Contiguous => sys::ATTILE_SHARDS_CONTIGUOUS,
            Shards::Zigzag => sys::ATTILE_SHARDS_ZIGZAG,
            Shards::Striped => sys::ATTILE_SHARDS_STRIPED,
        }
    }

    /// Positions of a sequence of `length` that a rank has, in the order of its rows.
    pub fn positions(self, length: i64, rank: i32, ranks: i32) -> Result<Vec<i64>> {
        let mut positions = Vec::new();
        for part in 0..if self == Shards::Zigzag { 2 } else { 1 } {
            let (mut first, mut count, mut stride) = (0, 0, 0);
            // SAFETY: three numbers are written.
            check(unsafe { sys::attile_shard_part(self.number(), length, rank, ranks, part, &mut first, &mut count, &mut stride) })?;
            positions.extend((0..count).map(|i| first + i * stride));
        }
        Ok(positions)
    }
}

/// Which group of ranks to join, and as which rank.
#[derive(Clone, Copy, Debug)]
#[must_use = "no group is joined before join()"]
pub struct CommOptions {
    raw: sys::attile_comm_options,
}

const THREADS: &[u8] = b"threads\0";
const MPI: &[u8] = b"mpi\0";
const NCCL: &[u8] = b"nccl\0";
const CALLBACKS: &[u8] = b"callbacks\0";

impl CommOptions {
    fn of_kind(kind: &'static [u8]) -> Self {
        let mut raw = initialised!(attile_comm_options, attile_comm_options_init);
        raw.kind = kind.as_ptr().cast();
        CommOptions { raw }
    }

    /// Ranks that are threads of this process; those that name the same `group` find each other.
    pub fn threads(rank: i32, ranks: i32, group: i64) -> Self {
        let mut options = Self::of_kind(THREADS);
        options.raw.rank = rank;
        options.raw.ranks = ranks;
        options.raw.group = group;
        options
    }

    /// Ranks of MPI, which this process has loaded and initialised. `communicator` is the integer that Fortran has for one, `MPI_Comm_c2f(comm)`;
    /// 0 is MPI_COMM_WORLD.
    pub fn mpi(communicator: i32) -> Self {
        let mut options = Self::of_kind(MPI);
        options.raw.communicator = i64::from(communicator);
        options
    }

    /// Ranks of NCCL, or of RCCL, whose library this process has loaded. `communicator` is an ncclComm_t on the device of the context.
    ///
    /// # Safety
    /// It is a communicator, nothing else uses it until `join` has returned, and it outlives the [`Communicator`].
    pub unsafe fn nccl(communicator: *mut c_void) -> Self {
        let mut options = Self::of_kind(NCCL);
        options.raw.communicator = communicator as isize as i64;
        options
    }

    /// Ranks that a [`Transport`] connects, which [`join_by`](Self::join_by) takes.
    pub fn callbacks(rank: i32, ranks: i32) -> Self {
        let mut options = Self::of_kind(CALLBACKS);
        options.raw.rank = rank;
        options.raw.ranks = ranks;
        options
    }

    /// Longest wait for another rank; without it what ATTILE_COMM_TIMEOUT says, else 600 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.raw.timeout_seconds = timeout.as_secs_f64();
        self
    }

    /// Ranks' contexts may be of different backends.
    pub fn mixed_backends(mut self) -> Self {
        self.raw.flags |= sys::ATTILE_COMM_ALLOW_MIXED_BACKENDS as u32;
        self
    }

    /// Joins; returns when all ranks have come. The rank computes on `context`.
    pub fn join(self, context: &Context) -> Result<Communicator<'_>> {
        self.join_through(context, None)
    }

    /// Joins ranks that `transport` connects; returns when all have come. For options of [`callbacks`](Self::callbacks).
    pub fn join_by<'c, T: Transport + 'c>(self, context: &'c Context, transport: T) -> Result<Communicator<'c>> {
        self.join_through(context, Some(Bridge::new(transport)))
    }

    fn join_through<'c>(mut self, context: &'c Context, bridge: Option<Bridge<'c>>) -> Result<Communicator<'c>> {
        let mut raw = ptr::null_mut();
        self.raw.callbacks = bridge.as_ref().map_or(ptr::null(), |bridge| &bridge.callbacks);
        // SAFETY: options and callbacks live through the call, the kind's name for ever, and what the callbacks use as long as the communicator.
        check(unsafe { sys::attile_comm_create(context.raw, &self.raw, &mut raw) })?;
        let mut joined = Communicator { context, raw, rank: 0, ranks: 0, _bridge: bridge };
        let info = joined.info()?;
        joined.rank = info.rank;
        joined.ranks = info.ranks;
        Ok(joined)
    }
}

/// What a communicator is, and whether it still works.
#[derive(Clone, Debug, PartialEq)]
pub struct CommInfo {
    /// "threads", "mpi", "nccl" or "callbacks".
    pub kind: String,
    /// This rank.
    pub rank: i32,
    /// How many there are.
    pub ranks: i32,
    /// Longest wait for another rank.
    pub timeout: Duration,
    /// Calls that all ranks began together.
    pub calls: i64,
    /// 0, or why it refuses work.
    pub status: i32,
    /// That as a sentence.
    pub text: String,
    /// Time that this rank's calls have spent sending, and waiting for other ranks.
    pub in_transport: Duration,
}

/// One rank's end of a group of ranks; leaves it when dropped. It stays on its thread. With MPI, drop it before MPI ends.
#[derive(Debug)]
pub struct Communicator<'c> {
    pub(crate) context: &'c Context,
    pub(crate) raw: *mut sys::attile_comm,
    rank: i32,
    ranks: i32,
    _bridge: Option<Bridge<'c>>, // freed when the communicator is gone
}

impl Communicator<'_> {
    /// This rank, from 0.
    pub fn rank(&self) -> i32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> i32 {
        self.ranks
    }

    /// Positions of a sequence that this rank has, in the order of its rows.
    pub fn positions(&self, shards: Shards, length: i64) -> Result<Vec<i64>> {
        shards.positions(length, self.rank, self.ranks)
    }

    /// What it is. Asks no other rank.
    pub fn info(&self) -> Result<CommInfo> {
        let mut raw = initialised!(attile_comm_info, attile_comm_info_init);
        // SAFETY: the struct lives through the call, which fills it to its size.
        check(unsafe { sys::attile_comm_get_info(self.raw, &mut raw) })?;
        Ok(CommInfo {
            kind: text(&raw.kind),
            rank: raw.rank,
            ranks: raw.ranks,
            timeout: Duration::from_secs_f64(raw.timeout_seconds),
            calls: raw.calls,
            status: raw.status,
            text: text(&raw.text),
            in_transport: Duration::from_secs_f64(raw.transport_seconds),
        })
    }
}

impl Drop for Communicator<'_> {
    fn drop(&mut self) {
        // SAFETY: what borrows the communicator is gone.
        unsafe { sys::attile_comm_destroy(self.raw) }
    }
}
