// SPDX-License-Identifier: Apache-2.0
//! Every operation against plain loops in f64, errors, memory, threads. Runs on the backend that the environment selects.
use attile::{Activation, Context, Level, Mask, MemoryKind, MergePart, ReduceOp, TensorMut, TensorRef};

mod support;
use support::{assert_close, attention, random};

#[test]
fn gemm_with_epilogue_and_accumulation() {
    let context = Context::new().unwrap();
    let (m, n, k) = (5usize, 7, 4);
    let (a, b, bias) = (random(1, m * k), random(2, k * n), random(3, n));
    let mut d = vec![f32::NAN; m * n];
    let [mi, ni, ki] = [m as i64, n as i64, k as i64];
    context
        .gemm(TensorRef::new(&a, &[mi, ki]).unwrap(), TensorRef::new(&b, &[ki, ni]).unwrap(), TensorMut::new(&mut d, &[mi, ni]).unwrap())
        .alpha(2.0)
        .bias_columns(TensorRef::new(&bias, &[ni]).unwrap())
        .activation(Activation::Relu)
        .run()
        .unwrap();
    let product = |i: usize, j: usize| (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[p * n + j])).sum::<f64>();
    let expected: Vec<f64> = (0..m * n).map(|at| (2.0 * product(at / n, at % n) + f64::from(bias[at % n])).max(0.0)).collect();
    assert_close(&d, &expected, 1e-5);

    let before = d.clone();
    // B as the transpose of memory that holds it N by K.
    let bt: Vec<f32> = (0..n * k).map(|at| b[at % k * n + at / k]).collect();
    context
        .gemm(
            TensorRef::new(&a, &[mi, ki]).unwrap(),
            TensorRef::strided(&bt, &[ki, ni], &[1, ki], 0).unwrap(),
            TensorMut::new(&mut d, &[mi, ni]).unwrap(),
        )
        .accumulate(0.5)
        .run()
        .unwrap();
    let expected: Vec<f64> = (0..m * n).map(|at| product(at / n, at % n) + 0.5 * f64::from(before[at])).collect();
    assert_close(&d, &expected, 1e-5);
}

#[test]
fn attention_forward_backward_and_merge() {
    let context = Context::new().unwrap();
    let (l, d) = (6usize, 8usize);
    let (q, k, v) = (random(4, l * d), random(5, l * d), random(6, l * d));
    let shape = [1, 1, l as i64, d as i64];
    let (mut o, mut lse) = (vec![f32::NAN; l * d], vec![f32::NAN; l]);
    context
        .attention(
            TensorRef::new(&q, &shape).unwrap(),
            TensorRef::new(&k, &shape).unwrap(),
            TensorRef::new(&v, &shape).unwrap(),
            TensorMut::new(&mut o, &shape).unwrap(),
        )
        .mask(Mask::CausalTopLeft)
        .lse(TensorMut::new(&mut lse, &shape[..3]).unwrap())
        .run()
        .unwrap();
    let (expected, expected_lse) = attention(&q, &k, &v, d, |i| i);
    assert_close(&o, &expected, 1e-5);
    assert_close(&lse, &expected_lse, 1e-5);

    // dv of a gradient of ones: column sums of the probabilities, which add up to the number of rows.
    let ones = vec![1.0f32; l * d];
    let (mut dq, mut dk, mut dv) = (vec![f32::NAN; l * d], vec![f32::NAN; l * d], vec![f32::NAN; l * d]);
    let backward = context
        .attention_backward(
            [TensorRef::new(&q, &shape).unwrap(), TensorRef::new(&k, &shape).unwrap(), TensorRef::new(&v, &shape).unwrap()],
            [TensorRef::new(&o, &shape).unwrap(), TensorRef::new(&lse, &shape[..3]).unwrap()],
            TensorRef::new(&ones, &shape).unwrap(),
            [TensorMut::new(&mut dq, &shape).unwrap(), TensorMut::new(&mut dk, &shape).unwrap(), TensorMut::new(&mut dv, &shape).unwrap()],
        )
        .mask(Mask::CausalTopLeft);
    backward.run().unwrap();
    let total: f64 = dv.iter().step_by(d).map(|x| f64::from(*x)).sum();
    assert!((total - l as f64).abs() <= 1e-5, "{}", total);
    assert!(dq.iter().chain(&dk).all(|x| x.is_finite()));

    // Two ranges of keys, merged, are the whole.
    let mut parts = Vec::new();
    for keys in [0..2 * d, 2 * d..l * d] {
        let part = [1, 1, (keys.len() / d) as i64, d as i64];
        let (mut o, mut lse) = (vec![f32::NAN; l * d], vec![f32::NAN; l]);
        context
            .attention(
                TensorRef::new(&q, &shape).unwrap(),
                TensorRef::new(&k[keys.clone()], &part).unwrap(),
                TensorRef::new(&v[keys.clone()], &part).unwrap(),
                TensorMut::new(&mut o, &shape).unwrap(),
            )
            .lse(TensorMut::new(&mut lse, &shape[..3]).unwrap())
            .run()
            .unwrap();
        parts.push((o, lse));
    }
    let mut merged = vec![f32::NAN; l * d];
    let views: Vec<_> = parts.iter().map(|p| (TensorRef::new(&p.0, &shape).unwrap(), TensorRef::new(&p.1, &shape[..3]).unwrap())).collect();
    let mut lse = vec![f32::NAN; l];
    context
        .attention_merge(&views, TensorMut::new(&mut merged, &shape).unwrap())
        .lse(TensorMut::new(&mut lse, &shape[..3]).unwrap())
        .run()
        .unwrap();
    assert_close(&merged, &attention(&q, &k, &v, d, |_| l - 1).0, 1e-5);

    // The shares of the parts add up to 1.
    let mut gradients: Vec<_> = parts.iter().map(|_| (vec![f32::NAN; l * d], vec![f32::NAN; l])).collect();
    let both = parts.iter().zip(&mut gradients).map(|(part, gradient)| MergePart {
        o: TensorRef::new(&part.0, &shape).unwrap(),
        lse: TensorRef::new(&part.1, &shape[..3]).unwrap(),
        d_o: TensorMut::new(&mut gradient.0, &shape).unwrap(),
        d_lse: TensorMut::new(&mut gradient.1, &shape[..3]).unwrap(),
    });
    let results = [TensorRef::new(&merged, &shape).unwrap(), TensorRef::new(&lse, &shape[..3]).unwrap()];
    let ones = vec![1.0_f32; l * d];
    context.attention_merge_backward(both.collect(), results, TensorRef::new(&ones, &shape).unwrap()).run().unwrap();
    assert!((0..l * d).all(|i| (gradients[0].0[i] + gradients[1].0[i] - 1.0).abs() <= 1e-5));
    assert!((0..l).all(|i| (gradients[0].1[i] + gradients[1].1[i]).abs() <= 1e-4));
}

#[test]
fn key_starts_causal_offset_and_packed_rows() {
    let context = Context::new().unwrap();
    let (l, d) = (6usize, 8usize);
    let (q, k, v) = (random(4, l * d), random(5, l * d), random(6, l * d));
    let shape = [1, 1, l as i64, d as i64];
    let tail = [1, 1, 2, d as i64];
    let q_tail = &q[4 * d..];
    let (mut o, mut masked) = (vec![f32::NAN; l * d], vec![f32::NAN; l * d]);
    let call = |o| {
        context.attention(TensorRef::new(&q, &shape).unwrap(), TensorRef::new(&k, &shape).unwrap(), TensorRef::new(&v, &shape).unwrap(), o)
    };
    call(TensorMut::new(&mut o, &shape).unwrap()).key_starts(TensorRef::new(&[2i32], &[1]).unwrap()).run().unwrap();
    let allowed = [false, false, true, true, true, true];
    call(TensorMut::new(&mut masked, &shape).unwrap()).allowed(TensorRef::new(&allowed, &[6]).unwrap()).run().unwrap();
    let masked: Vec<f64> = masked.iter().map(|x| f64::from(*x)).collect();
    assert_close(&o, &masked, 1e-6);

    // The last two rows alone, once as a chunk whose diagonal is given, and once packed.
    let expected = attention(&q, &k, &v, d, |i| i).0.split_off(4 * d);
    let (mut chunk, mut packed) = (vec![f32::NAN; 2 * d], vec![f32::NAN; 2 * d]);
    let call = |o| {
        context.attention(
            TensorRef::new(q_tail, &tail).unwrap(),
            TensorRef::new(&k, &shape).unwrap(),
            TensorRef::new(&v, &shape).unwrap(),
            o,
        )
    };
    call(TensorMut::new(&mut chunk, &tail).unwrap())
        .mask(Mask::CausalTopLeft)
        .causal_offset(TensorRef::new(&[4i32], &[1]).unwrap())
        .run()
        .unwrap();
    call(TensorMut::new(&mut packed, &tail).unwrap())
        .mask(Mask::CausalBottomRight)
        .packed_rows(TensorRef::new(&[0i32, 2], &[2]).unwrap(), 0)
        .run()
        .unwrap();
    assert_close(&chunk, &expected, 1e-5);
    assert_close(&packed, &expected, 1e-5);
}

#[test]
fn masks_of_blocks_and_trees() {
    let context = Context::new().unwrap();
    let (l, d) = (130usize, 4usize);
    let (q, k, v) = (random(4, l * d), random(5, l * d), random(6, l * d));
    let shape = [1, 1, l as i64, d as i64];
    let (kt, vt) = (TensorRef::new(&k, &shape).unwrap(), TensorRef::new(&v, &shape).unwrap());
    let mut o = vec![f32::NAN; l * d];
    context
        .attention(TensorRef::new(&q, &shape).unwrap(), kt, vt, TensorMut::new(&mut o, &shape).unwrap())
        .block_mask(TensorRef::new(&[1u8, 0, 7, 1], &[2, 2]).unwrap())
        .run()
        .unwrap();
    assert_close(&o, &attention(&q, &k, &v, d, |i| if i < 128 { 127 } else { 129 }).0, 1e-5);

    // The last two keys are drafts, each seen by the rows from its own on.
    let tail = [1, 1, 2, d as i64];
    let mut drafts = vec![f32::NAN; 2 * d];
    context
        .attention(TensorRef::new(&q[(l - 2) * d..], &tail).unwrap(), kt, vt, TensorMut::new(&mut drafts, &tail).unwrap())
        .tree_mask(TensorRef::new(&[true, false, true, true], &[2, 2]).unwrap())
        .run()
        .unwrap();
    assert_close(&drafts, &attention(&q, &k, &v, d, |i| i).0.split_off((l - 2) * d), 1e-5);
}

#[test]
fn gradient_of_lse() {
    let context = Context::new().unwrap();
    let (l, d) = (5usize, 4usize);
    let (q, k, v, dlse) = (random(4, l * d), random(5, l * d), random(6, l * d), random(7, l));
    let shape = [1, 1, l as i64, d as i64];
    let views = [TensorRef::new(&q, &shape).unwrap(), TensorRef::new(&k, &shape).unwrap(), TensorRef::new(&v, &shape).unwrap()];
    let (mut o, mut lse) = (vec![f32::NAN; l * d], vec![f32::NAN; l]);
    let call = context.attention(views[0], views[1], views[2], TensorMut::new(&mut o, &shape).unwrap());
    call.lse(TensorMut::new(&mut lse, &shape[..3]).unwrap()).run().unwrap();
    let none = vec![0f32; l * d];
    let (mut dq, mut dk, mut dv) = (vec![f32::NAN; l * d], vec![f32::NAN; l * d], vec![f32::NAN; l * d]);
    context
        .attention_backward(
            views,
            [TensorRef::new(&o, &shape).unwrap(), TensorRef::new(&lse, &shape[..3]).unwrap()],
            TensorRef::new(&none, &shape).unwrap(),
            [TensorMut::new(&mut dq, &shape).unwrap(), TensorMut::new(&mut dk, &shape).unwrap(), TensorMut::new(&mut dv, &shape).unwrap()],
        )
        .dlse(TensorRef::new(&dlse, &shape[..3]).unwrap())
        .run()
        .unwrap();
    // dq_i = scale dlse_i sum_j p_ij k_j, where sum_j p_ij k_j is attention with k in the place of v.
    let mean = attention(&q, &k, &k, d, |_| l - 1).0;
    let scale = 1.0 / (d as f64).sqrt();
    let expected: Vec<f64> = (0..l * d).map(|at| scale * f64::from(dlse[at / d]) * mean[at]).collect();
    assert_close(&dq, &expected, 1e-5);
    assert!(dv.iter().all(|x| *x == 0.0));
}

#[test]
fn groups_of_rows() {
    let context = Context::new().unwrap();
    let (a, b, bias) = (random(3, 5 * 4), random(4, 2 * 4 * 3), random(5, 2 * 3));
    let offsets = [1i32, 2, 4];
    let mut d = vec![7.0f32; 5 * 3];
    let (rows, matrices) = (TensorRef::new(&a, &[5, 4]).unwrap(), TensorRef::new(&b, &[2, 4, 3]).unwrap());
    let groups = TensorRef::new(&offsets, &[3]).unwrap();
    let biases = TensorRef::new(&bias, &[2, 3]).unwrap();
    let product = context.gemm_grouped(rows, matrices, groups, TensorMut::new(&mut d, &[5, 3]).unwrap());
    product.alpha(2.0).bias(biases).activation(Activation::Relu).run().unwrap();
    let expected: Vec<f64> = (0..15)
        .map(|at| {
            let (row, n) = (at / 3, at % 3);
            let group = if row == 1 { 0 } else { 1 };
            let sum: f64 = (0..4).map(|k| f64::from(a[row * 4 + k]) * f64::from(b[(group * 4 + k) * 3 + n])).sum();
            if (1..4).contains(&row) {
                (2.0 * sum + f64::from(bias[group * 3 + n])).max(0.0)
            } else {
                7.0 // rows of no group stay
            }
        })
        .collect();
    assert_close(&d, &expected, 1e-5);
}

#[test]
fn reductions_and_softmax() {
    let context = Context::new().unwrap();
    let mut x = random(7, 12);
    let mut y = vec![f32::NAN; 4];
    context.reduce(ReduceOp::Sum, TensorRef::new(&x, &[3, 4]).unwrap(), 0, TensorMut::new(&mut y, &[1, 4]).unwrap()).run().unwrap();
    let expected: Vec<f64> = (0..4).map(|j| (0..3).map(|i| f64::from(x[i * 4 + j])).sum()).collect();
    assert_close(&y, &expected, 1e-6);
    let before = x.clone();
    context.softmax_in_place(TensorMut::new(&mut x, &[3, 4]).unwrap(), -1).run().unwrap();
    let expected: Vec<f64> =
        (0..12).map(|at| f64::from(before[at]).exp() / (0..4).map(|j| f64::from(before[at / 4 * 4 + j]).exp()).sum::<f64>()).collect();
    assert_close(&x, &expected, 1e-6);
}

#[test]
fn device_memory_and_query() {
    let context = Context::new().unwrap();
    let (a, b) = (context.upload(&random(8, 6)).unwrap(), context.upload(&random(9, 6)).unwrap());
    let mut d = context.alloc::<f32>(MemoryKind::Device, 4).unwrap();
    let mut zeros = [1.0f32; 4];
    d.read(&mut zeros).unwrap();
    assert_eq!(zeros, [0.0; 4]);
    let call = context.gemm(a.view(&[2, 3]).unwrap(), b.view(&[3, 2]).unwrap(), d.view_mut(&[2, 2]).unwrap());
    let support = call.query().unwrap();
    assert_ne!(support.level, Level::None);
    assert_eq!(support.flops, 24.0);
    let stream = context.stream().unwrap();
    // SAFETY: the stream is synchronized before anything is read or dropped.
    unsafe { context.gemm(a.view(&[2, 3]).unwrap(), b.view(&[3, 2]).unwrap(), d.view_mut(&[2, 2]).unwrap()).run_on(&stream).unwrap() };
    stream.synchronize().unwrap();
    let mut found = [f32::NAN; 4];
    d.read(&mut found).unwrap();
    assert!(found.iter().all(|x| x.is_finite() && *x != 0.0));
    assert!(d.read(&mut [0.0; 3]).is_err());
    d.write(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    d.write_at(1, &[5.0, 6.0]).unwrap();
    d.write_at(4, &[]).unwrap();
    for (first, count) in [(3, 2), (5, 0), (usize::MAX, 1)] {
        let error = d.write_at(first, &[7.0; 2][..count]).unwrap_err();
        assert!(error.to_string().contains(&format!("{} elements from {} on, and a buffer of 4", count, first)), "{}", error);
    }
    assert!(d.write(&[0.0; 3]).is_err());
    d.read(&mut found).unwrap();
    assert_eq!(found, [1.0, 5.0, 6.0, 4.0]);
}

#[test]
fn wrong_arguments_are_errors_with_the_librarys_sentence() {
    let context = Context::new().unwrap();
    let (x, mut d) = ([0.0f32; 6], [0.0f32; 4]);
    let error = context
        .gemm(TensorRef::new(&x, &[2, 3]).unwrap(), TensorRef::new(&x, &[2, 3]).unwrap(), TensorMut::new(&mut d, &[2, 2]).unwrap())
        .run()
        .unwrap_err();
    assert_eq!(error.code(), attile::sys::ATTILE_ERROR_SHAPE_MISMATCH);
    assert!(error.to_string().starts_with("ATTILE_ERROR_SHAPE_MISMATCH: gemm"), "{}", error);
    assert_eq!(Context::open("nosuch").unwrap_err().code(), attile::sys::ATTILE_ERROR_BACKEND_NOT_FOUND);
    assert!(attile::backend_report().contains("nosuch"));
    assert!(Context::open("no\0such").is_err());
}

#[test]
fn views_stay_inside_their_slices() {
    let x = [0.0f32; 6];
    assert!(TensorRef::new(&x, &[2, 4]).is_err());
    assert!(TensorRef::new(&x, &[-1]).is_err());
    assert!(TensorRef::new(&x, &[]).is_err());
    assert!(TensorRef::new(&x, &[1, 1, 1, 1, 1]).is_err());
    assert!(TensorRef::strided(&x, &[6], &[-1], 5).is_ok());
    assert!(TensorRef::strided(&x, &[6], &[-1], 4).is_err());
    assert!(TensorRef::strided(&x, &[3], &[i64::MAX], 0).is_err());
    assert!(TensorRef::strided(&x, &[100], &[0], 5).is_ok());
    assert!(TensorRef::new(&x, &[0, i64::MAX, i64::MAX, i64::MAX]).is_ok());
    assert!(TensorRef::new(&x, &[i64::MAX; 4]).is_err());
    assert!(TensorRef::new(&[] as &[f32], &[0]).is_ok());
}

#[test]
fn the_library_writes_no_bool() {
    let context = Context::new().unwrap();
    let mut slice = [false; 256];
    let mut memory = context.alloc::<bool>(MemoryKind::Host, 256).unwrap();
    for refused in [
        TensorMut::new(&mut slice, &[256]).err(),
        TensorMut::strided(&mut slice, &[2], &[3], 1).err(),
        TensorMut::new(&mut [] as &mut [bool], &[0]).err(),
        memory.view_mut(&[256]).err(),
    ] {
        let error = refused.unwrap();
        assert_eq!(error.code(), attile::sys::ATTILE_ERROR_INVALID_DTYPE);
        assert!(error.to_string().contains("elements of type bool"), "{}", error);
    }
    assert!(TensorRef::new(&slice, &[256]).is_ok() && memory.view(&[256]).is_ok());
    memory.write(&[true; 256]).unwrap();
    memory.read(&mut slice).unwrap();
    assert_eq!(slice, [true; 256]);
}

#[test]
fn threads_share_a_context() {
    let context = Context::new().unwrap();
    let x = random(10, 64);
    let expected = {
        let mut y = vec![0.0f32; 64];
        context.softmax(TensorRef::new(&x, &[8, 8]).unwrap(), 1, TensorMut::new(&mut y, &[8, 8]).unwrap()).run().unwrap();
        y
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let mut y = vec![f32::NAN; 64];
                    context.softmax(TensorRef::new(&x, &[8, 8]).unwrap(), 1, TensorMut::new(&mut y, &[8, 8]).unwrap()).run().unwrap();
                    assert_eq!(y, expected);
                }
            });
        }
    });
}
