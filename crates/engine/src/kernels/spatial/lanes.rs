//! Loops over channels, compiled for each width of vectors and chosen at run time. The body is the same, and Rust never
//! contracts a product and a sum, so that all versions give the same bits.

/// Defines functions and compiles their bodies three times: for AVX-512, for AVX2, and for any CPU.
macro_rules! lanes {
    ($(
        $(#[$meta:meta])*
        fn $name:ident<$type:ident: $bound:path>($($argument:ident: $kind:ty),* $(,)?) $body:block
    )*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "plain slices are what loops become vector code over")]
        fn $name<$type: $bound>($($argument: $kind),*) {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "as above")]
            fn portable<$type: $bound>($($argument: $kind),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
                #[allow(clippy::too_many_arguments, reason = "as above")]
                fn avx512<$type: $bound>($($argument: $kind),*) {
                    portable($($argument),*);
                }
                #[target_feature(enable = "avx2,fma,f16c")]
                #[allow(clippy::too_many_arguments, reason = "as above")]
                fn avx2<$type: $bound>($($argument: $kind),*) {
                    portable($($argument),*);
                }
                let common = is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
                if common
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                {
                    // SAFETY: the CPU has what the function is compiled for.
                    return unsafe { avx512($($argument),*) };
                }
                if common && is_x86_feature_detected!("avx2") {
                    // SAFETY: the CPU has what the function is compiled for.
                    return unsafe { avx2($($argument),*) };
                }
            }
            portable($($argument),*);
        }
    )*};
}

pub(super) use lanes;
