// SPDX-License-Identifier: Apache-2.0
use attile_sys as sys;

mod sealed {
    pub trait Sealed {}
}

/// A type that tensors can hold: f32, f64, [`F16`], [`Bf16`]; i32 for lengths and tables; u8 and bool for masks.
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

macro_rules! elements {
    ($($kind:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $kind {}
        impl Element for $kind { const DTYPE: i32 = sys::$dtype; }
    )*};
}
elements!(f32 => ATTILE_F32, f64 => ATTILE_F64, F16 => ATTILE_F16, Bf16 => ATTILE_BF16, i32 => ATTILE_I32, u8 => ATTILE_U8, bool => ATTILE_BOOL);
