// SPDX-License-Identifier: Apache-2.0
//! Numbers of 8 and 4 bits against plain loops: as keys and values, as weights, and how they are made.
use attile::{Bf16, Context, E4m3, GgmlFormat, Mask, RopeLayout, TensorMut, TensorRef};

mod support;
use support::{assert_close, attention, random};

#[test]
fn keys_and_values_of_eight_bits() {
    let context = Context::new().unwrap();
    let (l, d) = (9usize, 4usize);
    let q = random(7, l * d);
    let whole = |seed| random(seed, l * d).iter().map(|x| (x * 127.0) as i8).collect::<Vec<_>>();
    let (k, v, k_scale, v_scale) = (whole(8), whole(9), random(10, l), random(11, d));
    let shape = [1, 1, l as i64, d as i64];
    let mut o = vec![f32::NAN; l * d];
    context
        .attention(
            TensorRef::new(&q, &shape).unwrap(),
            TensorRef::new(&k, &shape).unwrap(),
            TensorRef::new(&v, &shape).unwrap(),
            TensorMut::new(&mut o, &shape).unwrap(),
        )
        .k_scale(TensorRef::new(&k_scale, &[l as i64, 1]).unwrap())
        .v_scale(TensorRef::new(&v_scale, &[d as i64]).unwrap())
        .mask(Mask::CausalTopLeft)
        .run()
        .unwrap();
    let keys: Vec<f32> = k.iter().enumerate().map(|(i, x)| k_scale[i / d] * f32::from(*x)).collect();
    let values: Vec<f32> = v.iter().enumerate().map(|(i, x)| v_scale[i % d] * f32::from(*x)).collect();
    assert_close(&o, &attention(&q, &keys, &values, d, |i| i).0, 1e-3);
    // Values of another type than q: the upper halves of floats.
    let wide: Vec<Bf16> = values.iter().map(|x| Bf16((x.to_bits() >> 16) as u16)).collect();
    let values: Vec<f32> = wide.iter().map(|x| f32::from_bits(u32::from(x.0) << 16)).collect();
    context
        .attention(
            TensorRef::new(&q, &shape).unwrap(),
            TensorRef::new(&keys, &shape).unwrap(),
            TensorRef::new(&wide, &shape).unwrap(),
            TensorMut::new(&mut o, &shape).unwrap(),
        )
        .run()
        .unwrap();
    assert_close(&o, &attention(&q, &keys, &values, d, |_| l - 1).0, 1e-3);
}

#[test]
fn results_of_eight_bits() {
    let context = Context::new().unwrap();
    let (a, b, by_rows) = ([3.0f32, 500.0], [1.0f32], [-2.0f32, 2.0]);
    let mut d = [-128i8; 2];
    context
        .gemm(TensorRef::new(&a, &[2, 1]).unwrap(), TensorRef::new(&b, &[1, 1]).unwrap(), TensorMut::new(&mut d, &[2, 1]).unwrap())
        .d_scale(TensorRef::new(&by_rows, &[2, 1]).unwrap())
        .run()
        .unwrap();
    assert_eq!(d, [-2, 127]); // of -1.5 the even neighbour
    let one = [1, 1, 1, 1];
    let mut o = [E4m3(0)];
    context
        .attention(
            TensorRef::new(&b, &one).unwrap(),
            TensorRef::new(&b, &one).unwrap(),
            TensorRef::new(&a[..1], &one).unwrap(),
            TensorMut::new(&mut o, &one).unwrap(),
        )
        .o_scale(TensorRef::new(&[2.0f32], &[1]).unwrap())
        .run()
        .unwrap();
    assert_eq!(o[0].0, 0x3c); // 1.5
}

#[test]
fn queries_of_eight_bits() {
    let context = Context::new().unwrap();
    let (l, d) = (9usize, 4usize);
    let shape = [1, 1, l as i64, d as i64];
    let whole = |seed| random(seed, l * d).iter().map(|x| (x * 127.0) as i8).collect::<Vec<_>>();
    let (q, k, v, q_scale, k_scale) = (whole(12), whole(13), whole(14), random(15, l), [1.0f32 / 127.0]);
    let mut o = vec![f32::NAN; l * d];
    context
        .attention(
            TensorRef::new(&q, &shape).unwrap(),
            TensorRef::new(&k, &shape).unwrap(),
            TensorRef::new(&v, &shape).unwrap(),
            TensorMut::new(&mut o, &shape).unwrap(),
        )
        .q_scale(TensorRef::new(&q_scale, &[l as i64, 1]).unwrap())
        .k_scale(TensorRef::new(&k_scale, &[1]).unwrap())
        .v_scale(TensorRef::new(&k_scale, &[1]).unwrap())
        .run()
        .unwrap();
    let wide = |x: &[i8]| x.iter().map(|x| f32::from(*x) / 127.0).collect::<Vec<f32>>();
    let rows: Vec<f32> = q.iter().enumerate().map(|(i, x)| q_scale[i / d] * f32::from(*x)).collect();
    assert_close(&o, &attention(&rows, &wide(&k), &wide(&v), d, |_| l - 1).0, 1e-3);
    // 8-bit floats whose sums may lose bits: 1 and 2 of e4m3, so that every weight and every result is 1 or 2.
    let (ones, twos) = (vec![E4m3(0x38); l * d], vec![E4m3(0x40); l * d]);
    let mut o = vec![Bf16(0x7fc0); l * d];
    let call = context.attention(
        TensorRef::new(&ones, &shape).unwrap(),
        TensorRef::new(&ones, &shape).unwrap(),
        TensorRef::new(&twos, &shape).unwrap(),
        TensorMut::new(&mut o, &shape).unwrap(),
    );
    call.fast_accumulation().run().unwrap();
    assert!(o.iter().all(|x| *x == Bf16(0x4000)), "{:?}", o);
}

#[test]
fn keys_and_values_of_four_bits() {
    let context = Context::new().unwrap();
    let (l, d) = (9usize, 4usize);
    let shape = [1, 1, l as i64, d as i64];
    let q = random(21, l * d);
    let whole = |seed| random(seed, l * d).iter().map(|x| (x * 7.0) as i8).collect::<Vec<i8>>();
    let packed = |x: &[i8]| x.chunks(2).map(|two| (two[0] & 15) as u8 | ((two[1] & 15) << 4) as u8).collect::<Vec<u8>>();
    let (k, v, k_scale) = (whole(22), whole(23), random(24, l));
    let (k_packed, v_packed) = (packed(&k), packed(&v));
    let mut o = vec![f32::NAN; l * d];
    context
        .attention(
            TensorRef::new(&q, &shape).unwrap(),
            TensorRef::four_bits(&k_packed, true, &shape, None).unwrap(),
            TensorRef::four_bits(&v_packed, true, &shape, None).unwrap(),
            TensorMut::new(&mut o, &shape).unwrap(),
        )
        .k_scale(TensorRef::new(&k_scale, &[l as i64, 1]).unwrap())
        .run()
        .unwrap();
    let keys: Vec<f32> = k.iter().enumerate().map(|(i, x)| k_scale[i / d] * f32::from(*x)).collect();
    let values: Vec<f32> = v.iter().map(|x| f32::from(*x)).collect();
    assert_close(&o, &attention(&q, &keys, &values, d, |_| l - 1).0, 1e-3);
}

#[test]
fn weights_of_four_bits() {
    let context = Context::open("reference").unwrap();
    let (x, scale, zero) = (random(5, 3 * 64), random(6, 2 * 5), vec![7.5f32; 2 * 5]);
    let packed: Vec<u8> = (0..5 * 32).map(|at| (at * 37 % 251) as u8).collect(); // [n][k / 2]
    let mut y = vec![f32::NAN; 3 * 5];
    let b = TensorRef::four_bits(&packed, false, &[64, 5], Some(&[1, 64])).unwrap();
    let (scales, zeros) = (TensorRef::new(&scale, &[2, 5]).unwrap(), TensorRef::new(&zero, &[2, 5]).unwrap());
    let a = TensorRef::new(&x, &[3, 64]).unwrap();
    context.gemm(a, b, TensorMut::new(&mut y, &[3, 5]).unwrap()).b_scale(scales).b_zero(zeros).run().unwrap();
    let weight = |k: usize, n: usize| (f64::from(packed[n * 32 + k / 2] >> (k % 2 * 4) & 15) - 7.5) * f64::from(scale[k / 32 * 5 + n]);
    let expected: Vec<f64> = (0..15).map(|at| (0..64).map(|k| f64::from(x[at / 5 * 64 + k]) * weight(k, at % 5)).sum()).collect();
    assert_close(&y, &expected, 1e-4);
    assert!(TensorRef::four_bits(&packed, true, &[5, 66], None).is_err());
}

#[test]
fn quantisation_and_back() {
    let context = Context::open("reference").unwrap();
    let x = random(8, 4 * 64);
    let (mut q, mut scale, mut back) = (vec![0i8; 4 * 64], vec![f32::NAN; 8], vec![f32::NAN; 4 * 64]);
    for hadamard in [0, 32] {
        let (to, scales) = (TensorMut::new(&mut q, &[4, 64]).unwrap(), TensorMut::new(&mut scale, &[4, 2]).unwrap());
        context.quantize(TensorRef::new(&x, &[4, 64]).unwrap(), to, scales).hadamard(hadamard).run().unwrap();
        let again = q.clone();
        let (to, scales) = (TensorMut::new(&mut q, &[4, 64]).unwrap(), TensorRef::new(&scale, &[4, 2]).unwrap());
        context.quantize_by(TensorRef::new(&x, &[4, 64]).unwrap(), to, scales).hadamard(hadamard).run().unwrap();
        assert_eq!(q, again);
        let (from, scales) = (TensorRef::new(&q, &[4, 64]).unwrap(), TensorRef::new(&scale, &[4, 2]).unwrap());
        context.dequantize(from, scales, TensorMut::new(&mut back, &[4, 64]).unwrap()).hadamard(hadamard).run().unwrap();
        let expected: Vec<f64> = x.iter().map(|&value| f64::from(value)).collect();
        assert_close(&back, &expected, if hadamard == 0 { 0.51 / 127.0 } else { 0.05 });
    }
}

#[test]
fn quantisation_to_four_bits() {
    let context = Context::open("reference").unwrap();
    let x = random(9, 4 * 64);
    let (mut q, mut scale, mut zero, mut back) = (vec![0u8; 4 * 32], vec![f32::NAN; 8], vec![f32::NAN; 8], vec![f32::NAN; 4 * 64]);
    let (to, scales) = (TensorMut::four_bits(&mut q, false, &[4, 64]).unwrap(), TensorMut::new(&mut scale, &[4, 2]).unwrap());
    let zeros = TensorMut::new(&mut zero, &[4, 2]).unwrap();
    context.quantize(TensorRef::new(&x, &[4, 64]).unwrap(), to, scales).zero(zeros).run().unwrap();
    let (from, scales) = (TensorRef::four_bits(&q, false, &[4, 64], None).unwrap(), TensorRef::new(&scale, &[4, 2]).unwrap());
    let zeros = TensorRef::new(&zero, &[4, 2]).unwrap();
    context.dequantize(from, scales, TensorMut::new(&mut back, &[4, 64]).unwrap()).zero(zeros).run().unwrap();
    let expected: Vec<f64> = x.iter().map(|&value| f64::from(value)).collect();
    assert_close(&back, &expected, 2.0 / 15.0 * 0.51);
}

#[test]
fn rows_are_rotated_and_appended() {
    let context = Context::new().unwrap();
    let x = random(20, 8);
    let (cosines, sines) = (random(21, 6), random(22, 6));
    let (lengths, table) = ([5i32], [1i32, 0]);
    let shape = [1, 1, 2, 4];
    // Keys 3 and 4: the last slot of the first page, which is page 1, and the first of page 0. One pair of each row is rotated.
    let angles = [3, 2];
    let positions: Vec<i64> = angles.iter().map(|p| *p as i64).collect();
    let mut cache = vec![f32::NAN; 2 * 4 * 4];
    context
        .embed(TensorRef::new(&x, &shape).unwrap(), TensorMut::new(&mut cache, &[2, 1, 4, 4]).unwrap())
        .rope(RopeLayout::Interleaved, TensorRef::new(&cosines, &[6, 1]).unwrap(), TensorRef::new(&sines, &[6, 1]).unwrap())
        .positions(TensorRef::new(&positions, &[2]).unwrap())
        .append(TensorRef::new(&lengths, &[1]).unwrap())
        .block_table(TensorRef::new(&table, &[1, 2]).unwrap())
        .run()
        .unwrap();
    for (row, at) in [(0usize, 16 + 12), (1, 0)] {
        let (c, s, a, b) = (cosines[angles[row]], sines[angles[row]], x[4 * row], x[4 * row + 1]);
        assert_eq!(cache[at..at + 4], [a * c - b * s, b * c + a * s, x[4 * row + 2], x[4 * row + 3]]);
    }
    assert_eq!(cache.iter().filter(|x| x.is_nan()).count(), 24);
}

#[test]
fn blocks_of_ggml() {
    let context = Context::new().unwrap();
    let mut block = [0u8; 34]; // The scale 1.5, and numbers from -16 to 15.
    block[1] = 0x3e;
    for i in 0..32 {
        block[2 + i] = (i as i8 - 16) as u8;
    }
    let (mut q, mut scale) = ([0i8; 32], [0f32]);
    context
        .repack(
            GgmlFormat::Q8_0,
            TensorRef::new(&block, &[34]).unwrap(),
            TensorMut::new(&mut q, &[32]).unwrap(),
            TensorMut::new(&mut scale, &[1]).unwrap(),
        )
        .run()
        .unwrap();
    assert_eq!(scale, [1.5]);
    assert!(q.iter().enumerate().all(|(i, x)| i32::from(*x) == i as i32 - 16));
}
