// SPDX-License-Identifier: Apache-2.0
//! The table of illegal arguments and the conformance list, which all languages share. Both come from a shared object (ATTILE_BINDING_CASES, made
//! by this project's build; without it there is nothing to do) as argument structs; here they become views, and the crate is called with these.
#![allow(unknown_lints, clippy::missing_transmute_annotations)] // the fields say the types
use attile::{sys, Context, Error};
use std::ffi::{c_void, CString};
use std::os::raw::{c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

#[path = "shared_cases/typed_calls.rs"]
mod typed;

extern "C" {
    fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Call = extern "C" fn(i32, *const c_void) -> i32;

struct Cases {
    count: extern "C" fn() -> i32,
    make: extern "C" fn(i32, &mut i32, &mut *const c_void, &mut i32),
    judge: extern "C" fn(i32) -> i32,
    judge_text: extern "C" fn(i32, *const c_char) -> i32,
    conformance: extern "C" fn(Call, *const c_char, &mut i32) -> i32,
}

fn cases() -> Option<Cases> {
    let path = CString::new(std::env::var("ATTILE_BINDING_CASES").ok()?).unwrap();
    // SAFETY: the object is this project's own and has these functions, with these arguments.
    unsafe {
        let handle = dlopen(path.as_ptr(), 2); // RTLD_NOW
        assert!(!handle.is_null(), "{:?} cannot be opened", path);
        let find = |name: &str| {
            let symbol = CString::new(name).unwrap();
            let found = dlsym(handle, symbol.as_ptr());
            assert!(!found.is_null(), "{}", name);
            found
        };
        Some(Cases {
            count: std::mem::transmute(find("illegal_count")),
            make: std::mem::transmute(find("illegal_make")),
            judge: std::mem::transmute(find("illegal_judge")),
            judge_text: std::mem::transmute(find("illegal_judge_text")),
            conformance: std::mem::transmute(find("binding_conformance")),
        })
    }
}

#[repr(C)]
struct Blas {
    order: i32,
    transa: i32,
    transb: i32,
    sizes: [i64; 6], // m, n, k, lda, ldb, ldc
    alpha: f64,
    beta: f64,
    a: *const c_void,
    b: *const c_void,
    c: *mut c_void,
}

/// SAFETY: `args` points to the operation's struct, or is null.
unsafe fn call_raw(context: *mut sys::attile_context, operation: i32, args: *const c_void) -> i32 {
    match operation {
        0 => sys::attile_gemm(context, args.cast()),
        1 => sys::attile_attention(context, args.cast()),
        2 => sys::attile_attention_backward(context, args.cast()),
        3 => sys::attile_attention_merge(context, args.cast()),
        4 => sys::attile_attention_merge_backward(context, args.cast()),
        5 => sys::attile_reduce(context, args.cast()),
        6 => sys::attile_softmax(context, args.cast()),
        _ => {
            let x = &*args.cast::<Blas>();
            let ([m, n, k, lda, ldb, ldc], beta) = (x.sizes, x.beta);
            if operation == 7 {
                let (a, b, c) = (x.a.cast(), x.b.cast(), x.c.cast());
                sys::attile_sgemm(context, x.order, x.transa, x.transb, m, n, k, x.alpha, a, lda, b, ldb, beta, c, ldc)
            } else {
                let (a, b, c) = (x.a.cast(), x.b.cast(), x.c.cast());
                sys::attile_dgemm(context, x.order, x.transa, x.transb, m, n, k, x.alpha, a, lda, b, ldb, beta, c, ldc)
            }
        }
    }
}

fn raw_context() -> *mut sys::attile_context {
    let mut context = std::ptr::null_mut();
    // SAFETY: plain numbers and pointers, for which zero is valid; everything lives through the calls.
    unsafe {
        let mut options: sys::attile_context_options = std::mem::zeroed();
        sys::attile_context_options_init(&mut options, std::mem::size_of_val(&options) as u64);
        options.backend = b"reference\0".as_ptr().cast();
        assert_eq!(sys::attile_context_create(&options, &mut context), sys::ATTILE_OK);
    }
    context
}

#[test]
fn every_illegal_argument_is_refused_as_the_table_says() {
    let cases = match cases() {
        Some(cases) => cases,
        None => return,
    };
    let (raw, context) = (raw_context(), Context::open("reference").unwrap());
    let (mut wrong, mut typed_calls, mut own) = (0, 0, 0);
    for index in 0..(cases.count)() {
        let (mut operation, mut args, mut null_context) = (0, std::ptr::null(), 0);
        (cases.make)(index, &mut operation, &mut args, &mut null_context);
        let handle = if null_context != 0 { std::ptr::null_mut() } else { raw };
        // SAFETY: what the table hands out is as call_raw wants it.
        let status = unsafe { call_raw(handle, operation, args) };
        wrong += i32::from((cases.judge)(status) == 0);
        if null_context != 0 || args.is_null() || operation > 5 {
            continue;
        }
        // SAFETY: the table's memory stays until the next entry is made.
        match unsafe { typed::call(&context, operation, args) } {
            typed::Outcome::Inexpressible => {}
            typed::Outcome::RefusedByView(_) => own += 1,
            typed::Outcome::Called(result) => {
                typed_calls += 1;
                let (code, text) = match &result {
                    Ok(()) => (0, String::new()),
                    Err(error) => (error.code(), error.message().to_owned()),
                };
                let text = CString::new(text).unwrap();
                wrong += i32::from((cases.judge_text)(code, text.as_ptr()) == 0);
            }
        }
    }
    // SAFETY: made above, used by nobody else.
    unsafe { sys::attile_context_destroy(raw) };
    println!("{} illegal calls of the raw layer, {} of the typed one, {} refused by its views", (cases.count)(), typed_calls, own);
    assert_eq!(wrong, 0);
    assert!((cases.count)() > 600 && typed_calls > 300);
}

static BY_VIEWS: AtomicI32 = AtomicI32::new(0);
static BY_STRUCTS: AtomicI32 = AtomicI32::new(0);

extern "C" fn conformance_call(operation: i32, args: *const c_void) -> i32 {
    let context = match Context::open("reference") {
        Ok(context) => context,
        Err(error) => return error.code(),
    };
    // SAFETY: the runner's tensors describe its own memory, which stays through the call.
    match unsafe { typed::call(&context, operation, args) } {
        typed::Outcome::Called(result) => {
            BY_VIEWS.fetch_add(1, Ordering::Relaxed);
            result.err().map_or(0, |error: Error| error.code())
        }
        typed::Outcome::RefusedByView(error) => error.code(),
        typed::Outcome::Inexpressible => {
            BY_STRUCTS.fetch_add(1, Ordering::Relaxed);
            let raw = raw_context();
            // SAFETY: as above; the context is used by nobody else.
            unsafe {
                let status = call_raw(raw, operation, args);
                sys::attile_context_destroy(raw);
                status
            }
        }
    }
}

#[test]
fn the_conformance_list() {
    let cases = match cases() {
        Some(cases) => cases,
        None => return,
    };
    let filter = CString::new(std::env::var("ATTILE_CASE").unwrap_or_default()).unwrap();
    let mut passed = 0;
    let failed = (cases.conformance)(conformance_call, filter.as_ptr(), &mut passed);
    let (views, structs) = (BY_VIEWS.load(Ordering::Relaxed), BY_STRUCTS.load(Ordering::Relaxed));
    println!("{} passed, {} failed; {} calls by views, {} by argument structs", passed, failed, views, structs);
    assert_eq!(failed, 0);
    assert!(views > structs);
}
