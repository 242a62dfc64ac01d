//! Data sources: what they give, and what they refuse.

use std::io::Write;

use super::*;

const TEXTS: Input = Input::Tokens { vocabulary: 50, sequence: 4, next: true };
const MASKED: Input = Input::Tokens { vocabulary: 50, sequence: 4, next: false };
const PICTURES: Input = Input::Image { height: 2, width: 3, channels: 1, classes: 5 };

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn u16s(tokens: &[u16]) -> Vec<u8> {
    tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
}

fn origin(file: &tempfile::NamedTempFile, kind: DataKind) -> Origin {
    Origin::File { path: file.path().to_owned(), kind }
}

/// What is said of a file that is refused.
fn refused(bytes: &[u8], kind: DataKind, input: Input) -> String {
    let file = file(bytes);
    origin(&file, kind).check(&input).expect_err("refused").error.what
}

fn tokens(samples: &dyn Samples, index: u64) -> ([i32; 4], [i32; 4]) {
    let (mut tokens, mut targets) = ([0; 4], [0; 4]);
    samples.tokens(index, &mut tokens, &mut targets).unwrap();
    (tokens, targets)
}

#[test]
fn synthetic_samples_are_functions_of_seed_and_index() {
    let open = |seed| Origin::Synthetic.samples(&TEXTS, seed, Depth::Whole).unwrap();
    let (first, again, other) = (open(1), open(1), open(2));
    let (of_seven, targets) = tokens(&*first, 7);
    assert_eq!((of_seven, targets), tokens(&*again, 7));
    assert_ne!(of_seven, tokens(&*other, 7).0);
    assert_ne!(of_seven, tokens(&*first, 8).0);
    assert_eq!(of_seven[1..], targets[..3], "the target is the next token");
    let masked = Origin::Synthetic.samples(&MASKED, 1, Depth::Whole).unwrap();
    assert_eq!(tokens(&*masked, 7).0, tokens(&*masked, 7).1, "the target is the token itself");
    // Every token of the vocabulary occurs, none beyond it, and about equally often.
    let mut counts = [0_u32; 50];
    (0..5_000).for_each(|index| tokens(&*first, index).0.iter().for_each(|token| counts[*token as usize] += 1));
    assert!(counts.iter().all(|count| (300..500).contains(count)), "{counts:?}");
}

#[test]
fn synthetic_numbers_are_centred_and_bounded() {
    let samples = Origin::Synthetic.samples(&PICTURES, 1, Depth::Whole).unwrap();
    let (mut sum, mut classes) = (0.0, [0_u32; 5]);
    for index in 0..2_000 {
        let (mut numbers, mut class) = ([0.0; 6], 0);
        samples.numbers(index, &mut numbers, &mut class).unwrap();
        assert!(numbers.iter().all(|number| (-1.0..1.0).contains(number)));
        sum += numbers.iter().sum::<f32>();
        classes[class as usize] += 1;
    }
    assert!((sum / 12_000.0).abs() < 0.02, "{sum}");
    assert!(classes.iter().all(|count| (330..470).contains(count)), "{classes:?}");
}

#[test]
fn a_file_of_tokens_is_read_in_stretches_and_counted_around() {
    let all: Vec<u16> = (0..14).collect();
    let whole = file(&u16s(&all));
    let samples = origin(&whole, DataKind::U16).samples(&TEXTS, 1, Depth::Whole).unwrap();
    // (14 - 1) / 4: three stretches.
    assert_eq!(tokens(&*samples, 0), ([0, 1, 2, 3], [1, 2, 3, 4]));
    assert_eq!(tokens(&*samples, 2), ([8, 9, 10, 11], [9, 10, 11, 12]));
    assert_eq!(tokens(&*samples, 3), tokens(&*samples, 0));
    let samples = origin(&whole, DataKind::U16).samples(&MASKED, 1, Depth::Whole).unwrap();
    assert_eq!(tokens(&*samples, 1), ([4, 5, 6, 7], [4, 5, 6, 7]));
    let wide = file(&all.iter().flat_map(|token| u32::from(*token).to_le_bytes()).collect::<Vec<u8>>());
    let samples = origin(&wide, DataKind::U32).samples(&TEXTS, 1, Depth::Whole).unwrap();
    assert_eq!(tokens(&*samples, 1), ([4, 5, 6, 7], [5, 6, 7, 8]));
}

fn numpy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn a_numpy_file_of_tokens_is_read() {
    let data = u16s(&[1, 2, 3, 4, 5]);
    let right = numpy("{'descr': '<u2', 'fortran_order': False, 'shape': (5,), }\n", &data);
    let file = file(&right);
    let samples = origin(&file, DataKind::U16).samples(&TEXTS, 1, Depth::Whole).unwrap();
    assert_eq!(tokens(&*samples, 0), ([1, 2, 3, 4], [2, 3, 4, 5]));
    let wrong = |header: &str, words: &str| {
        let said = refused(&numpy(header, &data), DataKind::U16, TEXTS);
        assert!(said.contains(words), "{said}");
    };
    wrong("{'descr': '<f8', 'fortran_order': False, 'shape': (5,), }", "`<f8`, not `<u2`");
    wrong("{'descr': '<u2', 'fortran_order': False, 'shape': (5, 1), }", "not one dimension");
    wrong("{'descr': '<u2', 'fortran_order': False, 'shape': (6,), }", "says 6 tokens of 2 bytes, but 10 bytes follow");
    assert!(refused(b"\x93NUMPY\x01\x00\xff\xff{}", DataKind::U16, TEXTS).contains("cut short"));
    assert!(refused(b"\x93NUMPY\x09", DataKind::U16, TEXTS).contains("version"));
}

#[test]
fn hostile_files_are_refused_with_numbers() {
    let token = |bytes: &[u8], words: &str| {
        let said = refused(bytes, DataKind::U16, TEXTS);
        assert!(said.contains(words), "{said}");
    };
    token(b"", "empty: 0 bytes");
    token(&[1; 11], "11 bytes are not a whole number of 2-byte tokens: 5 and 1 bytes");
    token(&u16s(&[1, 2, 3, 4]), "holds 4 tokens, but one sample takes 5 (4 + 1)");
    token(&u16s(&[1, 2, 3, 49, 50, 1]), "token 50 at place 4 is past the vocabulary of 50 (0 to 49)");
    token(b"To be, or not to be, that is the question: ", "43 bytes");
    token(b"To be, or not to be, that is the question:", "it is text");
    let wide: Vec<u8> = (0..40_u32).flat_map(u32::to_le_bytes).collect();
    token(&wide, "32-bit tokens");
    let missing = Origin::File { path: "/nowhere/at/all".into(), kind: DataKind::U16 };
    assert!(missing.check(&TEXTS).unwrap_err().error.what.starts_with("/nowhere/at/all: "));
    let directory = Origin::File { path: "/tmp".into(), kind: DataKind::U16 };
    assert!(directory.check(&TEXTS).unwrap_err().error.what.contains("it is a folder, not a plain file"));
    assert!(refused(&[0; 64], DataKind::Images, TEXTS).contains("needs tokens"));
    assert!(refused(&[0; 64], DataKind::U16, PICTURES).contains("needs images"));
    let vectors = Input::Vector { features: 3, classes: 2 };
    assert!(refused(&[0; 64], DataKind::U16, vectors).contains("needs vectors"));
}

/// A file of two images of 2 x 3 x 1 pixels.
fn images(classes: u32, labels: [u16; 2]) -> Vec<u8> {
    let mut bytes = b"RMIMAGE1".to_vec();
    bytes.extend([2_u32, 2, 3, 1, classes, 0].iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend(u16s(&labels));
    bytes.extend([0, 51, 102, 153, 204, 255, 255, 255, 255, 0, 0, 0]);
    bytes
}

#[test]
fn a_file_of_images_is_read_or_refused() {
    let whole = file(&images(5, [3, 4]));
    let samples = origin(&whole, DataKind::Images).samples(&PICTURES, 1, Depth::Whole).unwrap();
    let (mut numbers, mut class) = ([0.0; 6], 0);
    samples.numbers(2, &mut numbers, &mut class).unwrap();
    // Multiples of 51 are fifths of the range, but for the type's rounding.
    let fifths = [-1.0, -0.6, -0.2, 0.2, 0.6, 1.0];
    assert!(
        numbers.iter().zip(fifths).all(|(number, fifth): (&f32, f32)| (number - fifth).abs() < 1e-6),
        "{numbers:?}"
    );
    assert_eq!(class, 3);
    samples.numbers(1, &mut numbers, &mut class).unwrap();
    assert_eq!((numbers, class), ([1.0, 1.0, 1.0, -1.0, -1.0, -1.0], 4));
    let said = |bytes: &[u8], words: &str| {
        let said = refused(bytes, DataKind::Images, PICTURES);
        assert!(said.contains(words), "{said}");
    };
    said(&images(5, [3, 5]), "image 1 is of class 5, but there are 5 classes");
    said(&images(6, [3, 5]), "6 classes, but the model has 5");
    said(&images(5, [3, 4])[..47], "2 images take 48 bytes (32 + 2 x 2 + 2 x 6), but the file has 47");
    said(&images(5, [3, 4])[..20], "cut short: 20 of 32");
    said(b"\x89PNG\r\n", "RMIMAGE1");
    let other = Input::Image { height: 3, width: 2, channels: 1, classes: 5 };
    assert!(refused(&images(5, [3, 4]), DataKind::Images, other).contains("2 x 3 x 1, but the model needs 3 x 2 x 1"));
}

#[test]
fn a_token_past_the_vocabulary_is_noticed_when_it_is_read_too() {
    let mut tokens = vec![1_u16; 9];
    tokens[6] = 60;
    let hostile = file(&u16s(&tokens));
    let samples = origin(&hostile, DataKind::U16).samples(&TEXTS, 1, Depth::Header).unwrap();
    let (mut to, mut targets) = ([0; 4], [0; 4]);
    let said = samples.tokens(1, &mut to, &mut targets).unwrap_err();
    assert!(said.contains("sample 1: token 60 at place 6"), "{said}");
}

#[test]
fn only_plain_files_are_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, socket) = (folder.path().join("pipe"), folder.path().join("socket"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, what) in [
        (pipe, "a named pipe (FIFO)"),
        (socket, "a socket"),
        ("/dev/zero".into(), "a device"),
        (folder.path().to_owned(), "a folder"),
    ] {
        let refusal = Origin::File { path: path.clone(), kind: DataKind::U16 }.check(&TEXTS).unwrap_err().error.what;
        assert_eq!(refusal, format!("{}: it is {what}, not a plain file", path.display()));
    }
}
