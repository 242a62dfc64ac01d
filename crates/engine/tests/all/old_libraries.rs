//! Old libraries themselves, as far as they go without a GPU: RANKMARK_TEST_OLD_CUDNN and RANKMARK_TEST_OLD_CUBLAS name a libcudnn.so.9 of
//! cuDNN 9.1 and a libcublasLt.so.12 of CUDA 12.1, which `cargo xtask test --full` installs.

use std::path::PathBuf;

use engine::cuda::{Arithmetic, CUDNN_KINDS, CUDNN_SINCE, Cublas, Cudnn, CudnnDevice, Epilogue, Form};
use terms::Dtype;

use crate::skip;

#[allow(clippy::disallowed_methods, reason = "where a library is, only a variable says")]
fn named(test: &str, variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        skip::skip(test, &format!("no old library (hint: {variable}=PATH; `cargo xtask test --full` installs one)"));
    }
    found
}

/// Descriptors that the table says came later are refused by an older library, all others are made.
#[test]
fn cudnn_has_what_the_table_says() {
    let Some(path) = named("cudnn_has_what_the_table_says", "RANKMARK_TEST_OLD_CUDNN") else { return };
    let library = Cudnn::open(&path).unwrap();
    let mut later = 0;
    for (kind, since) in CUDNN_KINDS {
        let expected = since.is_none_or(|since| since.is_in(library.release()));
        assert_eq!(library.describes(kind), expected, "{kind} of cuDNN {}", library.version());
        later += usize::from(!expected);
    }
    assert!(later > 0, "cuDNN {} is not old", library.version());
    let error = CudnnDevice::described(&library, "{}").unwrap_err();
    assert!(error.is_lacking() && error.to_string().contains(&library.version()), "{error}");
}

/// All attributes of products are known to the oldest library that docs/how-to/gpu.md names.
#[test]
fn cublas_describes_every_product() {
    let Some(path) = named("cublas_describes_every_product", "RANKMARK_TEST_OLD_CUBLAS") else { return };
    let Some(gpu) = crate::cuda::gpu("cublas_describes_every_product") else { return };
    let library = Cublas::open(&path, &gpu).unwrap();
    for dtype in [Dtype::F32, Dtype::F64, Dtype::Bf16, Dtype::F16, Dtype::F8E4M3, Dtype::I8] {
        let arithmetic = Arithmetic::of(dtype, false).unwrap();
        for epilogue in Epilogue::ALL {
            let form = Form { epilogue, ..Form::new(arithmetic, [64, 64, 64]) };
            library.describe(&form).unwrap_or_else(|error| panic!("{form:?}: cuBLAS {}: {error}", library.version()));
        }
    }
}

#[test]
fn what_came_later_is_documented() {
    let page = include_str!("../../../../docs/how-to/gpu.md");
    for since in CUDNN_SINCE {
        assert!(page.contains(&since.to_string()), "{since}");
    }
}
