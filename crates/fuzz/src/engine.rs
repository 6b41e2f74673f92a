//! The fuzzer itself, around the target that the variable `FUZZ_TARGET` names.
#![no_main]
#![expect(unsafe_code, reason = "libFuzzer calls a function by its C name")]

use std::sync::OnceLock;

use fuzz::{TARGETS, Target};

fn target() -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            panic!("FUZZ_TARGET is one of {names:?}")
        })
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (target().run)(bytes));
