//! Products and rows on a device, by the libraries of tests/fakes: sums in f64 that are rounded once, work that runs as late as it may.

use std::sync::Arc;

use device::cuda::{Driver, Gpu, Stream};
use device::{Region, Slice};
use engine::cuda::{Arithmetic, Batch, Cublas, Epilogue, Form, Matrix, Operands, ProductError, Products, Rows};
use half::{bf16, f16};
use terms::Dtype;

use crate::fakes;

pub(crate) fn gpu(test: &str) -> Option<Arc<Gpu>> {
    let library = fakes::folder(test)?.join("libcuda.so.1");
    Some(Gpu::open(Driver::open(&library).unwrap(), 0).unwrap())
}

fn products(gpu: &Arc<Gpu>, is_tuned: bool) -> Products {
    let folder = fakes::folder("").unwrap();
    let library = Cublas::open(&folder.join("libcublasLt.so.12"), gpu).unwrap();
    Products::new(gpu, &library, is_tuned).unwrap()
}

/// The value of fp8 e4m3 by its definition.
fn e4m3(code: u8) -> f64 {
    let (sign, exponent, mantissa) = (code >> 7, code >> 3 & 15, f64::from(code & 7));
    let size = match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => mantissa / 512.0,
        _ => (8.0 + mantissa) * 2_f64.powi(i32::from(exponent) - 10),
    };
    if sign == 1 { -size } else { size }
}

pub(crate) fn decoded(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    bytes
        .chunks_exact(dtype.bytes() as usize)
        .map(|bytes| match dtype {
            Dtype::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()),
            Dtype::F32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
            Dtype::Bf16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
            Dtype::F16 => f16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
            Dtype::I8 => f64::from(bytes[0] as i8),
            Dtype::I32 => f64::from(i32::from_ne_bytes(bytes.try_into().unwrap())),
            _ => e4m3(bytes[0]),
        })
        .collect()
}

pub(crate) fn encoded(dtype: Dtype, values: &[f64]) -> Vec<u8> {
    let one = |value: f64| match dtype {
        Dtype::F64 => value.to_ne_bytes().to_vec(),
        Dtype::F32 => (value as f32).to_ne_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f64(value).to_ne_bytes().to_vec(),
        Dtype::F16 => f16::from_f64(value).to_ne_bytes().to_vec(),
        Dtype::I8 => vec![value as i8 as u8],
        Dtype::I32 => (value as i32).to_ne_bytes().to_vec(),
        _ => vec![(0..=255).find(|code| e4m3(*code) == value).expect("a value of fp8")],
    };
    values.iter().flat_map(|value| one(*value)).collect()
}

fn rounded(dtype: Dtype, value: f64) -> f64 {
    decoded(dtype, &encoded(dtype, &[value]))[0]
}

pub(crate) fn on_device(gpu: &Arc<Gpu>, bytes: &[u8]) -> Slice {
    let slice = Region::cuda(gpu, bytes.len()).unwrap().whole();
    slice.write(bytes).unwrap();
    slice
}

pub(crate) fn read(slice: &Slice) -> Vec<u8> {
    let mut bytes = vec![0; slice.len()];
    slice.read(&mut bytes).unwrap();
    bytes
}

/// Small whole numbers, of no short period.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7 + i / 13 * 5 + seed * 3) % 11) as f64 - 5.0).collect()
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
}

fn gelu_gradient(x: f64) -> f64 {
    // By a difference: not the formula that the library has.
    (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5
}

/// What a product must leave: C, the vector, the auxiliary matrix.
fn expected(form: &Form, [a, b, c, bias, kept]: &[Vec<f64>; 5]) -> [Vec<f64>; 3] {
    let Form { m, n, k, a_transposed, b_transposed, accumulate, epilogue, .. } = *form;
    let (mut out, mut vector, mut auxiliary) = (vec![0.0; m * n], bias.clone(), kept.clone());
    let mut sums = vec![0.0; n];
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let left = |p: usize| if a_transposed { a[p * m + i] } else { a[i * k + p] };
        let right = |p: usize| if b_transposed { b[j * k + p] } else { b[p * n + j] };
        let mut z: f64 = (0..k).map(|p| left(p) * right(p)).sum();
        if accumulate {
            z += c[i * n + j];
        }
        if matches!(epilogue, Epilogue::Bias | Epilogue::GeluBiasKept) {
            z += bias[j];
        }
        if epilogue == Epilogue::GeluBiasKept {
            auxiliary[i * n + j] = z;
        }
        z = match epilogue {
            Epilogue::Gelu | Epilogue::GeluBiasKept => gelu(z),
            Epilogue::GeluGradient | Epilogue::GeluBiasGradient => z * gelu_gradient(kept[i * n + j]),
            _ => z,
        };
        out[i * n + j] = z;
        sums[j] += z;
    }
    match epilogue {
        Epilogue::GeluBiasGradient => vector = sums,
        Epilogue::BiasGradient => {
            vector =
                (0..m).map(|i| (0..k).map(|p| if a_transposed { a[p * m + i] } else { a[i * k + p] }).sum()).collect();
        }
        _ => {}
    }
    [out, vector, auxiliary]
}

fn near(got: &[f64], wanted: &[f64], dtype: Dtype, what: &str) {
    for (index, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        // The derivative here is by a difference; a type's rounding hides that, except of f64 and f32.
        let unit = match dtype {
            Dtype::Bf16 => 1.0 / 128.0,
            Dtype::F16 => 1.0 / 1024.0,
            _ => 1e-6,
        };
        assert!(
            (got - wanted).abs() <= unit * wanted.abs().max(1e-3),
            "{what}: element {index} is {got}, not {wanted}"
        );
    }
}

#[test]
fn products_are_those_of_row_major_matrices_in_every_type_and_form() {
    let Some(gpu) = gpu("products_are_those_of_row_major_matrices_in_every_type_and_form") else { return };
    let products = products(&gpu, false);
    let stream = Stream::new(&gpu).unwrap();
    let sizes = [[1, 1, 1], [5, 3, 2], [3, 8, 17], [33, 5, 4], [16, 16, 16], [7, 32, 48]];
    let mut multiplied = 0;
    for (arithmetic, size) in Arithmetic::ALL.into_iter().flat_map(|each| sizes.map(|size| (each, size))) {
        for (number, epilogue) in (0..8).flat_map(|number| Epilogue::ALL.map(|epilogue| (number, epilogue))) {
            let bits = |bit: usize| number >> bit & 1 == 1;
            let (a_transposed, b_transposed, accumulate) = (bits(0), bits(1), bits(2));
            let form = Form { a_transposed, b_transposed, accumulate, epilogue, ..Form::new(arithmetic, size) };
            let (multiple, bytes_only) = arithmetic.needs();
            let has =
                !bytes_only || (b_transposed && !a_transposed && size[1] % multiple == 0 && size[2] % multiple == 0);
            let plain = epilogue == Epilogue::Plain || !bytes_only;
            if !has || !plain || (accumulate && epilogue == Epilogue::BiasGradient) {
                if !has {
                    assert!(matches!(products.algorithm(&form), Err(ProductError::Unsupported(_))), "{form:?}");
                }
                continue;
            }
            let [m, n, _] = size;
            let result = arithmetic.result();
            let lens = [form.elements()[0], form.elements()[1], m * n, form.vector(), m * n];
            let values: [Vec<f64>; 5] = std::array::from_fn(|place| numbers(lens[place], place + number));
            let dtypes = [arithmetic.operand(), arithmetic.operand(), result, result, result];
            let slices: Vec<Slice> =
                values.iter().zip(dtypes).map(|(values, dtype)| on_device(&gpu, &encoded(dtype, values))).collect();
            let operands = Operands {
                a: &slices[0],
                b: &slices[1],
                c: &slices[2],
                bias: epilogue.has_bias().then_some(&slices[3]),
                auxiliary: epilogue.has_auxiliary().then_some(&slices[4]),
            };
            let beside = (number % 2 == 0).then_some(&stream);
            stream.follow().unwrap();
            products.multiply(&form, &operands, beside).unwrap();
            stream.lead().unwrap();
            let wanted = expected(&form, &values);
            for ((slice, wanted), what) in slices[2..].iter().zip(&wanted).zip(["C", "the vector", "the matrix"]) {
                let what = format!("{form:?}, {what}");
                near(
                    &decoded(result, &read(slice)),
                    &wanted.iter().map(|value| rounded(result, *value)).collect::<Vec<_>>(),
                    result,
                    &what,
                );
            }
            multiplied += 1;
        }
    }
    assert!(multiplied > 1000, "{multiplied}");
}

#[test]
fn matrices_of_a_batch_are_multiplied_one_by_one() {
    let Some(gpu) = gpu("matrices_of_a_batch_are_multiplied_one_by_one") else { return };
    let products = products(&gpu, false);
    let [m, n, k, gap] = [4, 6, 5, 3];
    let strides = [m * k + gap, k * n, m * n + 1];
    let form = Form { batch: Some(Batch { count: 3, strides }), ..Form::new(Arithmetic::F32, [m, n, k]) };
    let values: Vec<Vec<f64>> = form.elements().into_iter().enumerate().map(|(at, len)| numbers(len, at)).collect();
    let slices: Vec<Slice> = values.iter().map(|values| on_device(&gpu, &encoded(Dtype::F32, values))).collect();
    let operands = Operands { a: &slices[0], b: &slices[1], c: &slices[2], bias: None, auxiliary: None };
    products.multiply(&form, &operands, None).unwrap();
    let got = decoded(Dtype::F32, &read(&slices[2]));
    for number in 0..3 {
        let part = |place: usize, len: usize| values[place][number * strides[place]..][..len].to_vec();
        let one = Form { batch: None, ..form };
        let wanted = expected(&one, &[part(0, m * k), part(1, k * n), part(2, m * n), vec![], vec![]]);
        assert_eq!(got[number * strides[2]..][..m * n], wanted[0], "{number}");
    }
    assert_eq!(got[m * n], values[2][m * n], "between the matrices nothing is written");
}

#[test]
fn what_is_described_to_the_library_is_destroyed_and_a_tuned_product_passes_over_what_fails() {
    let name = "what_is_described_to_the_library_is_destroyed_and_a_tuned_product_passes_over_what_fails";
    let Some(gpu) = gpu(name) else { return };
    let slices = [9, 9, 9].map(|_| on_device(&gpu, &encoded(Dtype::F32, &numbers(9, 1))));
    let operands = Operands { a: &slices[0], b: &slices[1], c: &slices[2], bias: None, auxiliary: None };
    let form = Form::new(Arithmetic::F32, [3, 3, 3]);
    for is_tuned in [false, true] {
        let products = products(&gpu, is_tuned);
        products.multiply(&form, &operands, None).unwrap();
        let algorithm = products.taken()[0].1;
        assert_eq!(
            (algorithm.tried, algorithm.tile, algorithm.stages, algorithm.splits),
            (if is_tuned { 3 } else { 1 }, 20, 8, 1)
        );
        assert!(if is_tuned { [11, 12].contains(&algorithm.id) } else { algorithm.id == 11 }, "{algorithm:?}");
        gpu.synchronise().unwrap();
    }
    let library = fakes::folder("").unwrap().join("libcublasLt.so.12");
    let library = device::library::Library::open(&library, device::library::Visibility::Local).unwrap();
    let alive = library.symbol(c"fake_cublas_alive").unwrap();
    // SAFETY: a function of the fake, of this form.
    let alive = unsafe { std::mem::transmute::<std::ptr::NonNull<std::ffi::c_void>, extern "C" fn() -> i32>(alive) };
    assert_eq!(alive(), 0, "handles and descriptions that nobody destroyed");
}

#[test]
fn what_cannot_be_multiplied_says_why() {
    let Some(gpu) = gpu("what_cannot_be_multiplied_says_why") else { return };
    let products = products(&gpu, false);
    let why = |form: Form| products.algorithm(&form).unwrap_err();
    let said = why(Form::new(Arithmetic::F8E4m3, [16, 32, 24])).to_string();
    assert_eq!(said, "products of f8e4m3 need n = 32 and k = 24 to be multiples of 16");
    let flat = Form { b_transposed: false, ..Form::new(Arithmetic::I8, [16, 32, 32]) };
    assert_eq!(why(flat).to_string(), "products of i8 need A as [m, k] and B as [n, k]");
    let past = why(Form::new(Arithmetic::Bf16, [1 << 32, 1, 1]));
    assert!(past.is_lacking() && past.to_string().contains("has a side past 2147483647"), "{past}");
    assert!(why(Form::new(Arithmetic::F32, [0, 1, 1])).to_string().contains("is empty"));
    let (short, host) = (on_device(&gpu, &[0; 8]), Region::host(64).unwrap().whole());
    let long = on_device(&gpu, &[0; 64]);
    let refused = |a: &Slice, bias: Option<&Slice>| {
        let operands = Operands { a, b: &long, c: &long, bias, auxiliary: None };
        products.multiply(&Form::new(Arithmetic::F32, [2, 2, 2]), &operands, None).unwrap_err().to_string()
    };
    assert_eq!(refused(&short, None), "a product was refused: A has 8 bytes, and needs 16");
    assert_eq!(refused(&host, None), "a product was refused: A is not in reach of this GPU");
    assert!(refused(&long, Some(&long)).contains("Plain has another vector"));
}

#[test]
fn every_bit_pattern_of_a_type_is_widened_and_narrowed_right() {
    let Some(gpu) = gpu("every_bit_pattern_of_a_type_is_widened_and_narrowed_right") else { return };
    let rows = Rows::load(&gpu).unwrap();
    for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F8E4M3, Dtype::I8] {
        let size = dtype.bytes() as usize;
        let patterns: Vec<u8> = match size {
            1 => (0..=255_u8).collect(),
            _ => (0..=65_535_u16).flat_map(u16::to_ne_bytes).collect(),
        };
        let all = decoded(dtype, &patterns);
        let finite: Vec<f64> = all.iter().copied().filter(|value| value.is_finite()).collect();
        let held: Vec<u8> = patterns
            .chunks_exact(size)
            .zip(&all)
            .filter(|(_, value)| value.is_finite())
            .flat_map(|(bytes, _)| bytes.to_vec())
            .collect();
        let (at, values) = (on_device(&gpu, &held), rows.values(&finite).unwrap());
        let lines = rows.lines([(0, 0)].into_iter()).unwrap();
        let columns = finite.len();
        let matrix = Matrix { at: &at, dtype, columns, values: &values, lines: &lines, step: 1, period: columns };
        assert_eq!(rows.compare(&matrix, 0.0).unwrap().wrong, 0, "{dtype}: widened");
        at.set(0x55).unwrap();
        rows.fill(&matrix).unwrap();
        let zeros = |bytes: Vec<u8>| decoded(dtype, &bytes);
        assert_eq!(zeros(read(&at)), finite, "{dtype}: narrowed");
        if dtype == Dtype::I8 {
            continue;
        }
        // Between two neighbours, at the middle, and next to the middle: to the nearest, and to the even of two.
        let mut sorted: Vec<f64> = finite.iter().copied().filter(|value| *value >= 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let middles: Vec<f64> = sorted
            .windows(2)
            .flat_map(|pair| {
                let middle = f64::midpoint(pair[0], pair[1]);
                let step = (pair[1] - pair[0]) / 16.0;
                [middle, -middle, middle - step, middle + step]
            })
            .collect();
        let wanted: Vec<f64> = sorted
            .windows(2)
            .enumerate()
            .flat_map(|(index, pair)| {
                let even = if index % 2 == 0 { pair[0] } else { pair[1] };
                [even, -even, pair[0], pair[1]]
            })
            .collect();
        let (columns, values) = (middles.len(), rows.values(&middles).unwrap());
        let at = on_device(&gpu, &vec![0; columns * size]);
        let matrix = Matrix { at: &at, dtype, columns, values: &values, lines: &lines, step: 1, period: columns };
        rows.fill(&matrix).unwrap();
        assert_eq!(decoded(dtype, &read(&at)), wanted, "{dtype}: rounded");
    }
}

#[test]
fn rows_repeat_values_from_their_own_place_and_what_differs_is_found() {
    let Some(gpu) = gpu("rows_repeat_values_from_their_own_place_and_what_differs_is_found") else { return };
    let rows = Rows::load(&gpu).unwrap();
    let table = numbers(3 * 13, 2);
    let values = rows.values(&table).unwrap();
    let places = [(13, 4), (0, 12), (26, 0), (13, 11), (0, 0)];
    let lines = rows.lines(places.into_iter()).unwrap();
    for dtype in [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::F8E4M3, Dtype::I8, Dtype::I32] {
        let (columns, step, size) = (29, 11, dtype.bytes() as usize);
        let at = on_device(&gpu, &vec![0x55; places.len() * columns * size]);
        let matrix = Matrix { at: &at, dtype, columns, values: &values, lines: &lines, step, period: 13 };
        rows.fill(&matrix).unwrap();
        let wanted: Vec<f64> = places
            .iter()
            .flat_map(|(base, start)| (0..columns).map(move |column| (base, (start + step * column) % 13)))
            .map(|(base, place)| table[base + place])
            .collect();
        let mut bytes = read(&at);
        assert_eq!(decoded(dtype, &bytes), wanted, "{dtype}");
        assert_eq!(rows.compare(&matrix, 0.0).unwrap().wrong, 0);
        // Off by one, in the first element and in the last.
        for place in [0, wanted.len() - 1] {
            bytes[place * size..][..size].copy_from_slice(&encoded(dtype, &[wanted[place] + 1.0]));
        }
        at.write(&bytes).unwrap();
        let found = rows.compare(&matrix, 0.5).unwrap();
        assert_eq!((found.wrong, found.first), (2, vec![0, wanted.len() as u64 - 1]), "{dtype}");
        assert_eq!(rows.compare(&matrix, 1.0).unwrap().wrong, 0, "{dtype}: within the tolerance");
        if dtype.is_float() {
            bytes[..size].copy_from_slice(&encoded(dtype, &[f64::NAN]));
            at.write(&bytes).unwrap();
            assert_eq!(rows.compare(&matrix, 1e9).unwrap().wrong, 1, "{dtype}: NaN is within no tolerance");
        }
    }
    let short =
        Matrix { at: &values, dtype: Dtype::F64, columns: 5, values: &values, lines: &lines, step: 1, period: 13 };
    assert!(rows.fill(&short).unwrap_err().to_string().contains("are not rows of 5 elements"));
}

#[test]
fn rows_are_added_gathered_and_combined() {
    let Some(gpu) = gpu("rows_are_added_gathered_and_combined") else { return };
    let rows = Rows::load(&gpu).unwrap();
    let stream = Stream::new(&gpu).unwrap();
    for dtype in [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16] {
        let size = dtype.bytes() as usize;
        let (x, y) = (numbers(60, 1), numbers(60, 4));
        let (from, to) = (on_device(&gpu, &encoded(dtype, &x)), on_device(&gpu, &encoded(dtype, &y)));
        stream.follow().unwrap();
        rows.add(dtype, &from, &to, Some(&stream)).unwrap();
        // Rows of 6 elements: the last is row 3 of the sums.
        let picked = [9, 0, 0, 4, 3];
        let index = rows.places(picked.into_iter()).unwrap();
        let gathered = on_device(&gpu, &vec![0x55; picked.len() * 6 * size]);
        rows.gather(6 * size, [&to, &index, &gathered], Some(&stream)).unwrap();
        stream.lead().unwrap();
        let sums: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        assert_eq!(decoded(dtype, &read(&to)), sums, "{dtype}");
        let wanted: Vec<f64> = picked.iter().flat_map(|row| sums[row * 6..][..6].to_vec()).collect();
        assert_eq!(decoded(dtype, &read(&gathered)), wanted, "{dtype}");
        let (places, weights) = ([1, 2, 7, 7, 0, 9], [1.0, 2.0, 1.0, -1.0, 3.0, 0.5]);
        let combined = on_device(&gpu, &vec![0x55; 3 * 6 * size]);
        let (at, by) = (rows.places(places.into_iter()).unwrap(), rows.values(&weights).unwrap());
        let targets = rows.places([1, 2, 0].into_iter()).unwrap();
        rows.combine((dtype, 6, 2), [&to, &targets, &at, &by, &combined], None).unwrap();
        // Row 0 of the result is the third sum.
        let wanted: Vec<f64> = [2, 0, 1]
            .into_iter()
            .flat_map(|row| (0..6).map(move |column| (row, column)))
            .map(|(row, column)| {
                (0..2).map(|each| weights[2 * row + each] * sums[places[2 * row + each] * 6 + column]).sum()
            })
            .map(|sum| rounded(dtype, sum))
            .collect();
        assert_eq!(decoded(dtype, &read(&combined)), wanted, "{dtype}");
    }
    let odd = on_device(&gpu, &[0; 9]);
    let index = rows.places([0].into_iter()).unwrap();
    assert!(rows.gather(3, [&odd, &index, &odd], None).unwrap_err().to_string().contains("rows of 3 bytes"));
}
