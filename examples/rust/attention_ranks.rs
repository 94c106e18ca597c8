// SPDX-License-Identifier: Apache-2.0
//! Causal attention of one sequence, spread over ranks: keys and values go round a ring. Each rank compares its rows
//! with those of one call.
//! Threads: cargo run --example attention_ranks [-- RANKS]
//! Ranks of MPI: cargo build --features mpi --example attention_ranks, then mpiexec -n 4 target/debug/examples/attention_ranks
use attile::{
    CommOptions, Context, ContextOptions, Error, Mask, Method, Shards, TensorMut, TensorRef,
};

const LENGTH: usize = 1000;
const HEADS: usize = 4;
const DIM: usize = 16;

/// [HEADS, LENGTH, DIM], the same on every rank; a real program has its own shard only.
fn sequence(seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..HEADS * LENGTH * DIM).map(|_| next()).collect()
}

/// Some positions of it.
fn rows_of(whole: &[f32], positions: &[i64]) -> Vec<f32> {
    let row =
        |head: usize, position: i64| &whole[(head * LENGTH + position as usize) * DIM..][..DIM];
    (0..HEADS)
        .flat_map(|head| {
            positions
                .iter()
                .flat_map(move |&position| row(head, position).iter().copied())
        })
        .collect()
}

/// Whether this rank's rows are those of one call.
fn compute(options: CommOptions) -> Result<bool, Error> {
    let (q, k, v) = (sequence(1), sequence(2), sequence(3));
    // [ranks]
    let context = ContextOptions::new().threads(1).open()?; // each rank has its own
    let comm = options.join(&context)?; // waits for the others
    let mine = comm.positions(Shards::Zigzag, LENGTH as i64)?; // which positions this rank has
    let (own_q, own_k, own_v) = (rows_of(&q, &mine), rows_of(&k, &mine), rows_of(&v, &mine));
    let mut o = vec![0.0f32; own_q.len()];
    let shape = [1, HEADS as i64, mine.len() as i64, DIM as i64];
    comm.attention(
        TensorRef::new(&own_q, &shape)?,
        TensorRef::new(&own_k, &shape)?,
        TensorRef::new(&own_v, &shape)?,
        TensorMut::new(&mut o, &shape)?,
    )
    .shards(Shards::Zigzag)
    .method(Method::Ring)
    .lengths(LENGTH as i64, LENGTH as i64)
    .mask(Mask::CausalTopLeft) // by positions in the whole sequence
    .run()?;
    // [ranks]

    let mut whole = vec![0.0f32; q.len()];
    let shape = [1, HEADS as i64, LENGTH as i64, DIM as i64];
    let one = Context::new()?;
    one.attention(
        TensorRef::new(&q, &shape)?,
        TensorRef::new(&k, &shape)?,
        TensorRef::new(&v, &shape)?,
        TensorMut::new(&mut whole, &shape)?,
    )
    .mask(Mask::CausalTopLeft)
    .run()?;
    let expected = rows_of(&whole, &mine);
    let right = o
        .iter()
        .zip(&expected)
        .all(|(found, expected)| (found - expected).abs() <= 1e-5);
    if comm.rank() == 0 {
        println!(
            "{} ranks, {} positions: within 1e-5 of one call: {}",
            comm.ranks(),
            LENGTH,
            right
        );
    }
    Ok(right)
}

#[cfg(not(feature = "mpi"))]
fn run() -> Result<bool, Error> {
    let ranks = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(4);
    let threads: Vec<_> = (0..ranks)
        .map(|rank| std::thread::spawn(move || compute(CommOptions::threads(rank, ranks, 1))))
        .collect();
    let mut right = true;
    for thread in threads {
        right &= thread.join().expect("a rank's thread ends")?;
    }
    Ok(right)
}

/// MPI is whatever libmpi is; a program with a crate for MPI has its own calls, and passes MPI_Comm_c2f(comm).
#[cfg(feature = "mpi")]
fn run() -> Result<bool, Error> {
    use std::os::raw::{c_char, c_int};
    #[link(name = "mpi")]
    extern "C" {
        fn MPI_Init_thread(
            argc: *mut c_int,
            argv: *mut *mut *mut c_char,
            required: c_int,
            provided: *mut c_int,
        ) -> c_int;
        fn MPI_Finalize() -> c_int;
    }
    const FUNNELED: c_int = 1; // only this thread uses the communicator
    let (null, mut level) = (std::ptr::null_mut(), 0);
    // SAFETY: MPI takes no arguments of the program's for these.
    unsafe { MPI_Init_thread(null, std::ptr::null_mut(), FUNNELED, &mut level) };
    let right = compute(CommOptions::mpi(0)); // MPI_COMM_WORLD; left before MPI ends
    if right == Ok(true) {
        // SAFETY: MPI was initialised. A rank that failed ends without it, and the launcher ends the others.
        unsafe { MPI_Finalize() };
    }
    right
}

fn main() -> Result<(), Error> {
    std::process::exit(i32::from(!run()?))
}
