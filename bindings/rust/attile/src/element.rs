// SPDX-License-Identifier: Apache-2.0
use attile_sys as sys;

mod sealed {
    pub trait Sealed {}
}

/// A type that tensors can hold: f32, f64, [`F16`], [`Bf16`]; i8, [`E4m3`] and [`E5m2`], whose scales are tensors of their own; i32 for
/// lengths, tables and sums of i8; i64 for positions; u8 and bool for masks.
pub trait Element: Copy + sealed::Sealed {
    /// The library's number of the type, ATTILE_F32 and so on.
    const DTYPE: i32;
}

/// The bits of an IEEE float16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The bits of a bfloat16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// The bits of an 8-bit float with four bits of exponent and no infinities (`float8_e4m3fn`). Since 1.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// The bits of an 8-bit float with five bits of exponent (`float8_e5m2`). Since 1.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct E5m2(pub u8);

macro_rules! elements {
    ($($kind:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $kind {}
        impl Element for $kind { const DTYPE: i32 = sys::$dtype; }
    )*};
}
elements!(f32 => ATTILE_F32, f64 => ATTILE_F64, F16 => ATTILE_F16, Bf16 => ATTILE_BF16, i32 => ATTILE_I32, u8 => ATTILE_U8, bool => ATTILE_BOOL);
elements!(i64 => ATTILE_I64, i8 => ATTILE_I8, E4m3 => ATTILE_F8_E4M3, E5m2 => ATTILE_F8_E5M2);
