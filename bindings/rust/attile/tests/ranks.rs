// SPDX-License-Identifier: Apache-2.0
//! Attention and its gradients over ranks that are threads, every option, against the local calls; communicators; what goes wrong.
use attile::{sys, CommOptions, Communicator, Context, Error, Mask, Method, Shards, TensorMut, TensorRef, Transport, TransportError};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;
use std::time::Duration;

const BATCH: i64 = 2;
const ROWS: i64 = 13;
const KEYS: i64 = 17;
const HEADS: i64 = 4;
const HEADS_KV: i64 = 2;
const DIM: i64 = 8;

/// An array [outer, len, inner] that is the same on every rank.
#[derive(Clone)]
struct Array {
    outer: i64,
    inner: i64,
    values: Vec<f64>,
}

impl Array {
    fn random(seed: u64, outer: i64, len: i64, inner: i64) -> Self {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 12) as f64 / (1u64 << 51) as f64 - 1.0
        };
        Array { outer, inner, values: (0..outer * len * inner).map(|_| next()).collect() }
    }

    fn nan(outer: i64, len: i64, inner: i64) -> Self {
        Array { outer, inner, values: vec![f64::NAN; (outer * len * inner) as usize] }
    }

    /// Some positions of the middle axis.
    fn take(&self, positions: &[i64]) -> Self {
        let len = self.values.len() as i64 / (self.outer * self.inner);
        let mut values = Vec::new();
        for outer in 0..self.outer {
            for position in positions {
                let from = ((outer * len + position) * self.inner) as usize;
                values.extend(&self.values[from..from + self.inner as usize]);
            }
        }
        Array { outer: self.outer, inner: self.inner, values }
    }
}

fn view<'a>(array: &'a Array, shape: &[i64]) -> TensorRef<'a> {
    TensorRef::new(&array.values, shape).unwrap()
}

fn view_mut<'a>(array: &'a mut Array, shape: &[i64]) -> TensorMut<'a> {
    TensorMut::new(&mut array.values, shape).unwrap()
}

fn assert_near(found: &Array, expected: &Array, what: &str) {
    assert_eq!(found.values.len(), expected.values.len(), "{}", what);
    for (i, (f, e)) in found.values.iter().zip(&expected.values).enumerate() {
        assert!((f - e).abs() <= 1e-12 || f == e, "{}: element {} is {} instead of {}", what, i, f, e);
    }
}

/// What a call gives: o, lse, dq, dk, dv, dbias, dsinks.
type Results = [Array; 7];

/// Options in the order of the builders' methods, applied to a builder of the local call or of the one over ranks.
macro_rules! with_options {
    ($builder:expr, $case:expr, $rows:expr, $bias:expr, $allowed:expr, $more:expr) => {{
        let mut builder = $builder;
        match $case {
            0 => builder = builder.scale(0.4).softcap(2.0).mask(Mask::CausalBottomRight),
            1 => {
                builder = builder
                    .mask(Mask::WindowTopLeft { left: Some(4), right: Some(2) })
                    .alibi_slopes(TensorRef::new($more.0, &[HEADS]).unwrap())
            }
            2 => builder = builder.bias(view($bias, &[1, HEADS, $rows, KEYS])).key_lengths(TensorRef::new($more.2, &[BATCH]).unwrap()),
            _ => {
                builder = builder
                    .allowed(TensorRef::new($allowed, &[1, 1, $rows, KEYS]).unwrap())
                    .sinks(TensorRef::new($more.1, &[HEADS]).unwrap())
            }
        }
        builder
    }};
}

struct Problem {
    q: Array,
    k: Array,
    v: Array,
    dout: Array,
    bias: Array,
    slopes: Vec<f64>,
    sinks: Vec<f64>,
}

impl Problem {
    fn new() -> Self {
        Problem {
            q: Array::random(1, BATCH * HEADS, ROWS, DIM),
            k: Array::random(2, BATCH * HEADS_KV, KEYS, DIM),
            v: Array::random(3, BATCH * HEADS_KV, KEYS, DIM),
            dout: Array::random(4, BATCH * HEADS, ROWS, DIM),
            bias: Array::random(5, HEADS, ROWS, KEYS),
            slopes: vec![0.1, 0.2, 0.3, 0.4],
            sinks: vec![-0.5, 0.5, 1.0, 0.0],
        }
    }

    /// Of the local call, or with a communicator of this rank's part.
    fn run(&self, context: &Context, comm: Option<(&Communicator<'_>, Shards, Method)>, case: i32) -> Results {
        let all = |length: i64| (0..length).collect::<Vec<i64>>();
        let (rows, keys) = match comm {
            Some((comm, shards, _)) => (comm.positions(shards, ROWS).unwrap(), comm.positions(shards, KEYS).unwrap()),
            None => (all(ROWS), all(KEYS)),
        };
        let (own_rows, own_keys) = (rows.len() as i64, keys.len() as i64);
        let (q, dout, bias) = (self.q.take(&rows), self.dout.take(&rows), self.bias.take(&rows));
        let (k, v) = (self.k.take(&keys), self.v.take(&keys));
        let allowed: Vec<bool> = rows.iter().flat_map(|row| (0..KEYS).map(move |key| (row + key) % 3 > 0)).collect();
        let more = (&self.slopes, &self.sinks, &[KEYS as i32, 6]);
        let shape_q = [BATCH, HEADS, own_rows, DIM];
        let shape_k = [BATCH, HEADS_KV, own_keys, DIM];
        let shape_lse = [BATCH, HEADS, own_rows];
        let [mut o, mut lse] = [Array::nan(BATCH * HEADS, own_rows, DIM), Array::nan(BATCH * HEADS, own_rows, 1)];
        let mut gradients = [q.clone(), k.clone(), v.clone()];
        let [mut dbias, mut dsinks] = [Array::nan(HEADS, own_rows, KEYS), Array::nan(1, HEADS, 1)];
        let (view_q, view_k, view_v) = (view(&q, &shape_q), view(&k, &shape_k), view(&v, &shape_k));
        match comm {
            None => {
                let call = context.attention(view_q, view_k, view_v, view_mut(&mut o, &shape_q)).lse(view_mut(&mut lse, &shape_lse));
                with_options!(call, case, own_rows, &bias, &allowed, more).run().unwrap();
            }
            Some((comm, shards, method)) => {
                let call = comm.attention(view_q, view_k, view_v, view_mut(&mut o, &shape_q)).lse(view_mut(&mut lse, &shape_lse));
                let call = call.shards(shards).method(method).lengths(ROWS, KEYS);
                with_options!(call, case, own_rows, &bias, &allowed, more).run().unwrap();
            }
        }
        let inputs = [view_q, view_k, view_v];
        let outputs = [view(&o, &shape_q), view(&lse, &shape_lse)];
        let [dq, dk, dv] = &mut gradients;
        let into = [view_mut(dq, &shape_q), view_mut(dk, &shape_k), view_mut(dv, &shape_k)];
        macro_rules! backward {
            ($call:expr) => {{
                let mut call = with_options!($call, case, own_rows, &bias, &allowed, more);
                if case == 2 {
                    call = call.dbias(view_mut(&mut dbias, &[1, HEADS, own_rows, KEYS]));
                } else if case == 3 {
                    call = call.dsinks(view_mut(&mut dsinks, &[HEADS]));
                }
                call.run().unwrap();
            }};
        }
        match comm {
            None => backward!(context.attention_backward(inputs, outputs, view(&dout, &shape_q), into)),
            Some((comm, shards, method)) => {
                let call = comm.attention_backward(inputs, outputs, view(&dout, &shape_q), into);
                backward!(call.shards(shards).method(method).lengths(ROWS, KEYS))
            }
        }
        let [dq, dk, dv] = gradients;
        [o, lse, dq, dk, dv, dbias, dsinks]
    }
}

/// `body` on each rank, a thread of its own.
fn on_ranks(ranks: i32, group: i64, backend: &'static str, body: impl Fn(&Context, &Communicator<'_>) + Copy + Send + 'static) {
    let threads: Vec<_> = (0..ranks)
        .map(|rank| {
            thread::spawn(move || {
                let context = Context::open(backend).unwrap();
                let comm = CommOptions::threads(rank, ranks, group).timeout(Duration::from_secs(60)).join(&context).unwrap();
                body(&context, &comm);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn every_option_as_on_one_rank() {
    for backend in ["reference", "cpu"] {
        for ranks in 1..=4 {
            on_ranks(ranks, 100 + i64::from(ranks), backend, |context, comm| {
                let problem = Problem::new();
                for case in 0..4 {
                    let whole = problem.run(context, None, case);
                    for (shards, method) in
                        [(Shards::Contiguous, Method::Ring), (Shards::Zigzag, Method::AllGather), (Shards::Striped, Method::AllToAll)]
                    {
                        let (rows, keys) = (comm.positions(shards, ROWS).unwrap(), comm.positions(shards, KEYS).unwrap());
                        let found = problem.run(context, Some((comm, shards, method)), case);
                        for (i, name) in ["o", "lse", "dq", "dk", "dv"].iter().enumerate() {
                            let of_rank = if i < 3 { &rows } else { &keys };
                            assert_near(
                                &found[i],
                                &whole[i].take(of_rank),
                                &format!("{} of case {}, {:?}, {:?}", name, case, shards, method),
                            );
                        }
                        if case == 2 {
                            assert_near(&found[5], &whole[5].take(&rows), "dbias");
                        } else if case == 3 {
                            assert_near(&found[6], &whole[6], "dsinks");
                        }
                    }
                }
            });
        }
    }
}

#[test]
fn rows_that_every_rank_has_and_packed_sequences() {
    on_ranks(3, 200, "reference", |context, comm| {
        let problem = Problem::new();
        let (shape_q, shape_k) = ([BATCH, HEADS, ROWS, DIM], [BATCH, HEADS_KV, KEYS, DIM]);
        let (mut whole, mut found) = (Array::nan(BATCH * HEADS, ROWS, DIM), Array::nan(BATCH * HEADS, ROWS, DIM));
        let (q, k, v) = (view(&problem.q, &shape_q), view(&problem.k, &shape_k), view(&problem.v, &shape_k));
        context.attention(q, k, v, view_mut(&mut whole, &shape_q)).run().unwrap();
        let keys = comm.positions(Shards::Striped, KEYS).unwrap();
        let (own_k, own_v) = (problem.k.take(&keys), problem.v.take(&keys));
        let own_shape = [BATCH, HEADS_KV, keys.len() as i64, DIM];
        let call = comm.attention(q, view(&own_k, &own_shape), view(&own_v, &own_shape), view_mut(&mut found, &shape_q));
        call.shards(Shards::Striped).method(Method::Tree).replicated().lengths(ROWS, KEYS).run().unwrap();
        assert_near(&found, &whole, "o of every rank");

        // One entry of the batch as two packed sequences.
        let one = |array: &Array, heads: i64| Array {
            outer: heads,
            inner: DIM,
            values: array.values[..array.values.len() / BATCH as usize].to_vec(),
        };
        let (q, k, v) = (one(&problem.q, HEADS), one(&problem.k, HEADS_KV), one(&problem.v, HEADS_KV));
        let (starts_q, starts_k) = ([0, 4, ROWS as i32], [0, 9, KEYS as i32]);
        let starts =
            |of: &'static str| if of == "q" { TensorRef::new(&starts_q, &[3]).unwrap() } else { TensorRef::new(&starts_k, &[3]).unwrap() };
        let mut whole = Array::nan(HEADS, ROWS, DIM);
        let (shape_q, shape_k) = ([1, HEADS, ROWS, DIM], [1, HEADS_KV, KEYS, DIM]);
        let call = context.attention(view(&q, &shape_q), view(&k, &shape_k), view(&v, &shape_k), view_mut(&mut whole, &shape_q));
        call.packed(starts("q"), starts("k"), 9, 9).run().unwrap();
        let rows = comm.positions(Shards::Contiguous, ROWS).unwrap();
        let keys = comm.positions(Shards::Contiguous, KEYS).unwrap();
        let (own_q, own_k, own_v) = (q.take(&rows), k.take(&keys), v.take(&keys));
        let (shape_q, shape_k) = ([1, HEADS, rows.len() as i64, DIM], [1, HEADS_KV, keys.len() as i64, DIM]);
        let mut found = Array::nan(HEADS, rows.len() as i64, DIM);
        let call = comm.attention(view(&own_q, &shape_q), view(&own_k, &shape_k), view(&own_v, &shape_k), view_mut(&mut found, &shape_q));
        call.packed(starts("q"), starts("k"), 9, 9).lengths(ROWS, KEYS).run().unwrap();
        assert_near(&found, &whole.take(&rows), "o of packed sequences");
    });
}

#[test]
fn a_query_is_no_call() {
    on_ranks(2, 300, "cpu", |_, comm| {
        let x = vec![1.0f32; 2 * 16 * 8];
        let (mut o, shape) = (vec![f32::NAN; x.len()], [1, 2, 16, 8]);
        let all = || TensorRef::new(&x, &shape).unwrap();
        let support = comm.attention(all(), all(), all(), TensorMut::new(&mut o, &shape).unwrap()).method(Method::Ring).query().unwrap();
        assert_eq!((support.method, support.status), (Method::Ring, 0));
        assert!(support.bytes_sent > 0 && support.flops > 0.0 && !support.kernel.is_empty());
        assert_eq!(comm.info().unwrap().calls, 0);
        comm.attention(all(), all(), all(), TensorMut::new(&mut o, &shape).unwrap()).run().unwrap();
        let info = comm.info().unwrap();
        assert_eq!((info.kind.as_str(), info.rank, info.ranks, info.calls, info.status), ("threads", comm.rank(), 2, 1, 0));
        assert!(info.in_transport > Duration::from_secs(0) && info.timeout == Duration::from_secs(60));
        assert!(o.iter().all(|value| (value - 1.0).abs() < 1e-6));
    });
}

#[test]
fn what_goes_wrong_is_an_error() {
    let context = Context::open("reference").unwrap();
    let code = |result: Result<Communicator<'_>, Error>| result.map(|_| ()).unwrap_err().code();
    assert_eq!(code(CommOptions::threads(2, 2, 400).join(&context)), sys::ATTILE_ERROR_INVALID_VALUE);
    assert_eq!(code(CommOptions::threads(0, 2, 401).timeout(Duration::from_millis(50)).join(&context)), sys::ATTILE_ERROR_RANK_LATE);
    // There is no MPI in this process, and perhaps no transport for it.
    assert!([sys::ATTILE_ERROR_BACKEND_REFUSED, sys::ATTILE_ERROR_BACKEND_NOT_FOUND].contains(&code(CommOptions::mpi(0).join(&context))));
    assert_eq!(Shards::Zigzag.positions(8, 0, 2).unwrap(), [0, 1, 6, 7]);
    assert_eq!(Shards::Striped.positions(8, 2, 2).unwrap_err().code(), sys::ATTILE_ERROR_INVALID_VALUE);

    on_ranks(2, 402, "reference", |_, comm| {
        let (x, mut o, shape) = (vec![1.0f32; 64], vec![f32::NAN; 64], [1, 2, 4, 8]);
        let all = || TensorRef::new(&x, &shape).unwrap();
        let wrong = comm.attention(all(), all(), all(), TensorMut::new(&mut o, &shape).unwrap()).lengths(-1, 0).run().unwrap_err();
        assert_eq!(wrong.code(), sys::ATTILE_ERROR_INVALID_VALUE);
        let refused =
            comm.attention(all(), all(), all(), TensorMut::new(&mut o, &shape).unwrap()).flags(sys::ATTILE_FLAG_NO_ALLOC as u32).run();
        assert_eq!(refused.unwrap_err().code(), sys::ATTILE_ERROR_UNSUPPORTED_FEATURE);
        // The ranks disagree about the scale.
        let call = comm.attention(all(), all(), all(), TensorMut::new(&mut o, &shape).unwrap());
        let disagreed = call.scale(f64::from(comm.rank() + 1)).run().unwrap_err();
        assert_eq!(disagreed.name(), "ATTILE_ERROR_RANKS_DISAGREE");
        assert_eq!(comm.info().unwrap().status, sys::ATTILE_ERROR_RANKS_DISAGREE);
    });
    // Backends that differ are a disagreement, unless they may.
    for mixed in [false, true] {
        let threads: Vec<_> = (0..2)
            .map(|rank| {
                thread::spawn(move || {
                    let context = Context::open(["reference", "cpu"][rank as usize]).unwrap();
                    let options = CommOptions::threads(rank, 2, 403).timeout(Duration::from_secs(60));
                    let joined = if mixed { options.mixed_backends() } else { options }.join(&context);
                    joined.map(|comm| comm.ranks()).map_err(|error| error.code())
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), if mixed { Ok(2) } else { Err(sys::ATTILE_ERROR_RANKS_DISAGREE) });
        }
    }
}

type Why = fn() -> TransportError;

/// A transport of channels, one from each rank to each. `failing`: the send of that number does not.
struct Mail {
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
    sent: u32,
    failing: Option<(u32, Why)>,
    told: Sender<String>,
}

impl Mail {
    /// Of each rank, and what they give up with.
    fn of_ranks(ranks: usize) -> (Vec<Mail>, Receiver<String>) {
        let (told, all_told) = channel();
        let mut mails: Vec<_> = (0..ranks).map(|_| Mail { to: vec![], from: vec![], sent: 0, failing: None, told: told.clone() }).collect();
        for to in 0..ranks {
            for from in 0..ranks {
                let (sender, receiver) = channel();
                mails[from].to.push(sender);
                mails[to].from.push(receiver);
            }
        }
        (mails, all_told)
    }
}

impl Transport for Mail {
    type Sending = ();
    type Receiving = i32;

    fn send(&mut self, message: &[u8], to: i32) -> Result<(), TransportError> {
        self.sent += 1;
        match self.failing {
            Some((number, why)) if number == self.sent => Err(why()),
            _ => self.to[to as usize].send(message.to_vec()).map_err(|_| TransportError::Failed(7)),
        }
    }
    fn receive(&mut self, _bytes: usize, from: i32) -> Result<i32, TransportError> {
        Ok(from)
    }
    fn wait_sent(&mut self, _request: (), _timeout: Duration) -> Result<(), TransportError> {
        Ok(())
    }
    fn wait_received(&mut self, from: i32, message: &mut [u8], timeout: Duration) -> Result<(), TransportError> {
        let came = self.from[from as usize].recv_timeout(timeout).map_err(|_| TransportError::Late)?;
        message.copy_from_slice(&came);
        Ok(())
    }
    fn give_up(&mut self, why: &str) {
        let _ = self.told.send(why.to_string());
    }
}

/// `body` on each rank, connected by its mail; whose results are returned.
fn by_mail<R: Send + 'static>(mails: Vec<Mail>, body: impl Fn(&Context, &Communicator<'_>) -> R + Copy + Send + 'static) -> Vec<R> {
    let ranks = mails.len() as i32;
    let run = move |rank: i32, mail: Mail| {
        let context = Context::open("reference").unwrap();
        let options = CommOptions::callbacks(rank, ranks).timeout(Duration::from_millis(if mail.failing.is_some() { 300 } else { 60000 }));
        let comm = options.join_by(&context, mail).unwrap();
        body(&context, &comm)
    };
    let threads: Vec<_> = (0..).zip(mails).map(|(rank, mail)| thread::spawn(move || run(rank, mail))).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn a_transport_of_the_programs_own() {
    by_mail(Mail::of_ranks(3).0, |context, comm| {
        let problem = Problem::new();
        let whole = problem.run(context, None, 0);
        let found = problem.run(context, Some((comm, Shards::Zigzag, Method::Ring)), 0);
        let rows = comm.positions(Shards::Zigzag, ROWS).unwrap();
        assert_near(&found[0], &whole[0].take(&rows), "o by mail");
        assert_near(&found[2], &whole[2].take(&rows), "dq by mail");
        assert_eq!(comm.info().unwrap().kind, "callbacks");
    });
}

#[test]
fn a_transport_that_fails() {
    let failures: [(Why, i32, &str); 3] = [
        (|| TransportError::Failed(42), sys::ATTILE_ERROR_TRANSPORT, "it returned 42"),
        (|| TransportError::Late, sys::ATTILE_ERROR_RANK_LATE, "did not come"),
        (|| panic!("a panic of the test's transport"), sys::ATTILE_ERROR_TRANSPORT, "it returned -1"),
    ];
    for (why, code, words) in failures {
        let (mut mails, told) = Mail::of_ranks(2);
        mails[0].failing = Some((3, why));
        mails[1].failing = Some((u32::MAX, why)); // the other rank does not wait long
        let errors = by_mail(mails, |_, comm| {
            let (x, mut o, shape) = (vec![1.0f32; 64], vec![f32::NAN; 64], [1, 2, 4, 8]);
            let all = || TensorRef::new(&x, &shape).unwrap();
            let run = |o: &mut Vec<f32>| comm.attention(all(), all(), all(), TensorMut::new(o, &shape).unwrap()).run();
            (0..3).find_map(|_| run(&mut o).err()).unwrap()
        });
        assert_eq!(errors[0].code(), code, "{}", errors[0]);
        assert!(errors[0].message().contains(words), "{}", errors[0]);
        assert!([sys::ATTILE_ERROR_RANK_LATE, sys::ATTILE_ERROR_TRANSPORT].contains(&errors[1].code()), "{}", errors[1]);
        assert!(told.iter().any(|why| !why.is_empty()), "a rank gave up");
    }
    let context = Context::open("reference").unwrap();
    assert_eq!(CommOptions::callbacks(0, 2).join(&context).unwrap_err().code(), sys::ATTILE_ERROR_NULL_ARGUMENT);
    let mail = Mail::of_ranks(1).0.pop().unwrap();
    assert_eq!(CommOptions::threads(0, 1, 500).join_by(&context, mail).unwrap_err().code(), sys::ATTILE_ERROR_INVALID_VALUE);
    // SAFETY: no communicator is looked at where no library of NCCL is loaded, nor NULL.
    let nccl = unsafe { CommOptions::nccl(std::ptr::null_mut()) };
    assert!(nccl.join(&context).is_err());
}
