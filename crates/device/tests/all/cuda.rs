//! A device by the driver's library. The fake runs work as late as it may, checks every address, and lets no host touch memory of
//! the device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use device::Region;
use device::cuda::{CHECK, Driver, Event, Gpu, LOOPS, Loop, Loops, REPEATED, Repeated, Stream, chains_f32, chains_f64};
use terms::Space;

use crate::fakes;

fn gpu(test: &str) -> Option<Arc<Gpu>> {
    let library = fakes::folder(test)?.join("libcuda.so.1");
    Some(Gpu::open(Driver::open(&library).unwrap(), 1).unwrap())
}

/// Two devices of one kind that load the same kernels at the same time: one is compiled for, the other waits and gets what that made. Where
/// code cannot be kept, each takes the text, and says why.
#[test]
fn kernels_are_compiled_once_for_all_devices_of_a_host() {
    let test = "kernels_are_compiled_once_for_all_devices_of_a_host";
    let Some(library) = fakes::folder(test).map(|folder| folder.join("libcuda.so.1")) else { return };
    let folder = std::env::temp_dir().join(format!("rankmark-{test}-{}", std::process::id()));
    let loaded = |folder: &Path| {
        let gpu = Gpu::open(Driver::open(&library).unwrap(), 1).unwrap();
        gpu.keep_kernels_in(folder);
        // Loads what fills, too: it runs.
        let [bytes, table] = [64, 8].map(|bytes| Region::cuda(&gpu, bytes).unwrap().whole());
        table.write(&[7; 8]).unwrap();
        let with = Repeated { table: &table, element: 8, phase: 0 };
        bytes.fill(with).unwrap();
        assert_eq!(bytes.compare(with).unwrap().wrong, 0);
        gpu.loading()
    };
    let kernels = folder.join("kernels");
    let both = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| loaded(&kernels)));
        both.map(|each| each.join().unwrap())
    });
    let texts = both[0].texts;
    assert!(texts > 0 && both.iter().all(|own| own.compiled + own.kept == texts && own.unkept.is_none()), "{both:?}");
    assert_eq!(both[0].compiled + both[1].compiled, texts, "{both:?}");
    let later = loaded(&kernels);
    assert_eq!((later.compiled, later.kept), (0, texts), "{later:?}");
    assert!(later.to_string().ends_with(&format!("s: 0 compiled here, {texts} compiled before")), "{later}");
    // A file where the folder should be.
    let file = folder.join("file");
    std::fs::write(&file, "").unwrap();
    let without = loaded(&file);
    assert_eq!((without.texts, without.compiled + without.kept), (texts, 0), "{without:?}");
    assert!(without.to_string().contains("; not kept: "), "{without}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A table of so many elements, each of so many bytes.
fn table(elements: usize, width: usize) -> Vec<u8> {
    (0..elements).flat_map(|i| (0..width).map(move |byte| (i * 7 + byte * 31 + 3) as u8)).collect()
}

#[test]
fn buffers_are_filled_and_compared_element_by_element() {
    let Some(gpu) = gpu("buffers_are_filled_and_compared_element_by_element") else { return };
    for width in [1, 2, 4, 8] {
        let bytes = table(1021, width);
        let period = Region::cuda(&gpu, bytes.len()).unwrap().whole();
        period.write(&bytes).unwrap();
        for (count, phase) in [(1, 0), (1020, 1), (1021, 1020), (70_001, 409)] {
            // Between elements that must stay as they are.
            let whole = Region::cuda(&gpu, (count + 2) * width).unwrap().whole();
            whole.set(0x5a).unwrap();
            let part = whole.slice(width, count * width).unwrap();
            let with = Repeated { table: &period, element: width, phase };
            part.fill(with).unwrap();
            let mut got = vec![0; whole.len()];
            whole.read(&mut got).unwrap();
            let expected: Vec<u8> =
                (0..count).flat_map(|i| bytes[(phase + i) % 1021 * width..][..width].to_vec()).collect();
            assert_eq!(got[width..][..count * width], expected, "{count} of {width} bytes from {phase}");
            assert!(got[..width].iter().chain(&got[(count + 1) * width..]).all(|byte| *byte == 0x5a));
            assert_eq!(part.compare(with).unwrap().wrong, 0);
            // The last bit of the last element, and the first element.
            got[count * width + width - 1] ^= 0x80;
            got[width] ^= 1;
            whole.write(&got).unwrap();
            let found = part.compare(with).unwrap();
            let places = if count == 1 { vec![0] } else { vec![0, count as u64 - 1] };
            assert_eq!((found.wrong, found.first), (places.len() as u64, places), "{count} of {width} bytes");
        }
    }
}

#[test]
fn of_many_wrong_elements_all_are_counted_and_some_are_named() {
    let Some(gpu) = gpu("of_many_wrong_elements_all_are_counted_and_some_are_named") else { return };
    let period = Region::cuda(&gpu, 4 * 13).unwrap().whole();
    period.write(&table(13, 4)).unwrap();
    let buffer = Region::cuda(&gpu, 4 * 5000).unwrap().whole();
    let found = buffer.compare(Repeated { table: &period, element: 4, phase: 0 }).unwrap();
    assert_eq!((found.wrong, found.first.len()), (5000, 8));
    assert!(found.first.is_sorted() && found.first.iter().all(|index| *index < 5000), "{found:?}");
}

#[test]
fn new_memory_is_zero_and_memory_that_is_given_back_is_not_written_to() {
    let Some(gpu) = gpu("new_memory_is_zero_and_memory_that_is_given_back_is_not_written_to") else { return };
    let region = Region::cuda(&gpu, 4096).unwrap();
    let mut bytes = [1; 4096];
    region.whole().read(&mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0), "the driver gives what was there before");
    // In the stream when the memory goes.
    region.whole().set(7).unwrap();
    assert_eq!(gpu.held_bytes(), 4096, "what this program holds of the device");
    drop(region);
    gpu.synchronise().unwrap();
    assert_eq!(gpu.held_bytes(), 0);
}

#[test]
fn the_host_does_not_touch_memory_of_a_device() {
    let Some(gpu) = gpu("the_host_does_not_touch_memory_of_a_device") else { return };
    let region = Region::cuda(&gpu, 64).unwrap();
    assert_eq!((region.space(), region.len()), (Space::Cuda, 64));
    assert!(catch_unwind(AssertUnwindSafe(|| region.base())).is_err());
    let slice = region.slice(8, 8).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| slice.ptr())).is_err());
    assert_eq!(slice.address(), region.address() + 8);
    let host = Region::host(64).unwrap().whole();
    let refused = host.set(0).unwrap_err().to_string();
    assert!(refused.contains("the memory is the host's"), "{refused}");
    assert!(host.gpu().is_none() && slice.gpu().is_some());
}

#[test]
fn what_the_driver_would_not_survive_is_refused() {
    let Some(gpu) = gpu("what_the_driver_would_not_survive_is_refused") else { return };
    let buffer = Region::cuda(&gpu, 64).unwrap().whole();
    let period = Region::cuda(&gpu, 16).unwrap().whole();
    let with = |element, phase| Repeated { table: &period, element, phase };
    for (with, said) in [
        (with(3, 0), "elements of 3 bytes"),
        (with(8, 2), "from element 2 of 2"),
        (with(16, 0), "elements of 16 bytes"),
    ] {
        let refused =
            [buffer.fill(with).unwrap_err(), buffer.compare(with).unwrap_err()].map(|error| error.to_string());
        assert!(refused.iter().any(|words| words.contains(said) || words.contains("bytes of 3 each")), "{refused:?}");
    }
    assert!(buffer.write(&[0; 65]).unwrap_err().to_string().contains("65 bytes, where 64 are held"));
    assert!(buffer.read(&mut [0; 65]).is_err());
    assert!(Region::cuda(&gpu, 2 << 30).unwrap_err().is_out_of_memory());
}

/// A block has 227 KiB at most on the device that is emulated.
#[test]
fn shared_memory_is_what_a_block_has_at_most() {
    let Some(gpu) = gpu("shared_memory_is_what_a_block_has_at_most") else { return };
    let [mut fill] = gpu.load(CHECK, ["fill_8"]).unwrap();
    gpu.share(&mut fill, 100 << 10).unwrap();
    let refused = gpu.share(&mut fill, (227 << 10) + 1).unwrap_err().to_string();
    assert!(refused.contains("cuFuncSetAttribute"), "{refused}");
}

#[test]
fn an_event_is_done_once_the_stream_has_come_to_it() {
    let Some(gpu) = gpu("an_event_is_done_once_the_stream_has_come_to_it") else { return };
    let event = Event::new(&gpu).unwrap();
    assert!(event.is_done().unwrap(), "not recorded");
    let buffer = Region::cuda(&gpu, 64).unwrap().whole();
    buffer.set(1).unwrap();
    event.record().unwrap();
    assert!(!event.is_done().unwrap(), "nobody has waited");
    let turns = (0..1000).take_while(|_| !event.is_done().unwrap()).count();
    assert!(turns < 1000, "asking makes the stream go on");
}

#[test]
fn a_device_says_what_it_is() {
    let Some(gpu) = gpu("a_device_says_what_it_is") else { return };
    assert_eq!(gpu.name(), "Emulated GPU");
    assert!(gpu.free_bytes().unwrap() > 0);
    let other = Gpu::open(Driver::open(&fakes::folder("").unwrap().join("libcuda.so.1")).unwrap(), 0).unwrap();
    assert_ne!(gpu.uuid(), other.uuid());
    assert_eq!(gpu.uuid().to_string().len(), 36);
}

#[test]
fn a_library_that_is_no_driver_is_refused_with_what_it_lacks() {
    let folders = device::library::search_path();
    let libc = device::library::find(&folders, &["libc"]);
    let why = Driver::open(&libc[0]).unwrap_err();
    assert!(why.contains("`cuInit`, `cuDriverGetVersion`") && why.contains("`cuLaunchKernel`"), "{why}");
    assert!(Driver::open(Path::new("/nowhere/libcuda.so")).unwrap_err().contains("cannot open"));
}

/// The text that is shipped is that of the source: `cargo xtask ptx` makes it.
#[test]
fn the_shipped_text_has_the_kernels_of_the_source() {
    let source = include_str!("../../kernels/check.cu");
    let of_widths = ["8", "16", "32", "64"];
    let made: Vec<&str> = source.lines().filter_map(|line| line.strip_prefix("OF_WIDTH(")).collect();
    assert_eq!(made.len(), of_widths.len(), "{made:?}");
    let entries: Vec<&str> =
        CHECK.lines().filter_map(|line| line.strip_prefix(".visible .entry ")?.strip_suffix('(')).collect();
    let expected: Vec<String> =
        of_widths.iter().flat_map(|width| [format!("fill_{width}"), format!("compare_{width}")]).collect();
    assert_eq!(entries, expected);
}

#[test]
fn the_shipped_loops_are_those_of_the_source() {
    let source = include_str!("../../kernels/loops.cu");
    let named = |text: &str, head: &str| -> Vec<String> {
        let name = |line: &str| Some(line.strip_prefix(head)?.split('(').next()?.to_owned());
        text.lines().filter_map(name).collect()
    };
    let kernels = named(source, "extern \"C\" __global__ void ");
    assert_eq!(kernels, ["loop_copy", "loop_scale", "loop_add", "loop_triad", "chase", "fma_32", "fma_64"]);
    assert_eq!(named(LOOPS, ".visible .entry "), kernels);
}

/// What each thread leaves is what the host says, to the bit; and nothing behind the last.
#[test]
fn chains_in_registers_end_where_the_host_says() {
    let Some(gpu) = gpu("chains_in_registers_end_where_the_host_says") else { return };
    let loops = Loops::load(&gpu).unwrap();
    for (element, rounds) in [(4, 1), (4, 37), (8, 37), (8, 400)] {
        let count = 3 * REPEATED + 5;
        let all = Region::cuda(&gpu, element * (count + 1)).unwrap();
        all.whole().set(0x7f).unwrap();
        loops.multiply_add(element, &all.slice(0, element * count).unwrap(), rounds).unwrap();
        let mut got = vec![0; element * (count + 1)];
        all.whole().read(&mut got).unwrap();
        for (number, bytes) in got.chunks_exact(element).enumerate() {
            let wanted = match (number < count, element) {
                (false, _) => vec![0x7f; element],
                (true, 4) => chains_f32(number, rounds).to_ne_bytes().to_vec(),
                (true, _) => chains_f64(number, rounds).to_ne_bytes().to_vec(),
            };
            assert_eq!(bytes, wanted, "thread {number} of {element} bytes after {rounds} rounds");
        }
    }
    assert!(loops.multiply_add(2, &Region::cuda(&gpu, 64).unwrap().whole(), 1).is_err(), "no elements of two bytes");
}

fn numbers(count: usize, of: impl Fn(usize) -> f64) -> Vec<u8> {
    (0..count).flat_map(|i| of(i).to_ne_bytes()).collect()
}

/// Even and odd counts: the last element of an odd one has no partner in a load of 16 bytes.
#[test]
fn loops_compute_each_element_and_nothing_more() {
    let Some(gpu) = gpu("loops_compute_each_element_and_nothing_more") else { return };
    let loops = Loops::load(&gpu).unwrap();
    let all = [(Loop::Copy, [1.0, 0.0]), (Loop::Scale, [3.0, 0.0]), (Loop::Add, [1.0, 1.0]), (Loop::Triad, [1.0, 3.0])];
    for (which, [of_a, of_b]) in all {
        for count in [1, 2, 7, 1000, 70_001] {
            let array = || Region::cuda(&gpu, 8 * (count + 1)).unwrap();
            let [a, b, c] = [array(), array(), array()];
            a.whole().write(&numbers(count, |i| i as f64)).unwrap();
            b.whole().write(&numbers(count, |i| (7 * i % 101) as f64)).unwrap();
            c.whole().set(0x7f).unwrap();
            let part = |array: &Arc<Region>| array.slice(0, 8 * count).unwrap();
            loops.run(which, [&part(&a), &part(&b), &part(&c)]).unwrap();
            let mut got = vec![0; 8 * (count + 1)];
            c.whole().read(&mut got).unwrap();
            let expected = numbers(count, |i| of_a * i as f64 + of_b * (7 * i % 101) as f64);
            assert!(got[..8 * count] == expected, "{which:?} of {count}");
            assert_eq!(got[8 * count..], [0x7f; 8], "{which:?} of {count}: behind the last");
        }
    }
    let (short, long) = (Region::cuda(&gpu, 64).unwrap().whole(), Region::cuda(&gpu, 80).unwrap().whole());
    let odd = long.slice(8, 64).unwrap();
    let refused = |arrays| loops.run(Loop::Copy, arrays).unwrap_err().to_string().contains("refused");
    assert!(refused([&short, &short, &long]) && refused([&odd, &odd, &short]));
    assert!(refused([&Region::host(64).unwrap().whole(), &short, &short]));
}

#[test]
fn a_chain_in_pinned_memory_is_followed_to_its_end() {
    let Some(gpu) = gpu("a_chain_in_pinned_memory_is_followed_to_its_end") else { return };
    let loops = Loops::load(&gpu).unwrap();
    let (chain, end) = (Region::pinned(&gpu, 8 * 100).unwrap(), Region::cuda(&gpu, 8).unwrap().whole());
    for (place, next) in (0..100_u64).map(|i| (i, (i + 37) % 100)) {
        // SAFETY: inside the region, and nothing is in flight.
        unsafe { chain.base().cast::<u64>().add(place as usize).write(next) };
    }
    for steps in [0, 1, 3, 99] {
        loops.chase(&chain.whole(), steps, &end).unwrap();
        let mut at = [0; 8];
        end.read(&mut at).unwrap();
        assert_eq!(u64::from_ne_bytes(at), steps * 37 % 100);
    }
    assert!(loops.chase(&Region::host(8).unwrap().whole(), 1, &end).unwrap_err().to_string().contains("refused"));
}

#[test]
fn copies_go_between_pinned_and_device_memory_and_within_it() {
    let Some(gpu) = gpu("copies_go_between_pinned_and_device_memory_and_within_it") else { return };
    let bytes = table(3001, 1);
    let [from, to] = [(); 2].map(|()| Region::pinned(&gpu, bytes.len()).unwrap().whole());
    let [first, second] = [(); 2].map(|()| Region::cuda(&gpu, bytes.len()).unwrap().whole());
    // SAFETY: the region holds them, and nothing is in flight.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), from.ptr(), bytes.len()) };
    first.copy_from(&from, None).unwrap();
    second.copy_from(&first, None).unwrap();
    to.copy_from(&second, None).unwrap();
    gpu.synchronise().unwrap();
    // SAFETY: as above.
    assert!(unsafe { std::slice::from_raw_parts(to.ptr(), to.len()) } == bytes);
    let plain = Region::host(bytes.len()).unwrap().whole();
    assert!(first.copy_from(&plain, None).unwrap_err().to_string().contains("not pinned"));
    assert!(first.copy_from(&from.slice(0, 5).unwrap(), None).unwrap_err().to_string().contains("other lengths"));
    assert!(to.copy_from(&from, None).unwrap_err().to_string().contains("both sides are the host's"));
}

/// Without either wait the copies run in another order: the fake runs a stream when somebody waits for it, and no sooner.
/// As memory of another library, which continues to use it under its own region.
#[test]
fn memory_of_a_region_is_pinned_for_as_long_as_the_result_lives() {
    let Some(gpu) = gpu("memory_of_a_region_is_pinned_for_as_long_as_the_result_lives") else { return };
    let host = Region::host(10_000).unwrap();
    let there = Region::cuda(&gpu, 5000).unwrap().whole();
    there.write(&table(5000, 1)).unwrap();
    let beside = Stream::new(&gpu).unwrap();
    let event = Event::new(&gpu).unwrap();
    let pinned = Region::pin(&gpu, &host).unwrap();
    assert_eq!((pinned.base(), pinned.len()), (host.base(), host.len()));
    pinned.slice(100, 5000).unwrap().copy_from(&there, Some(&beside)).unwrap();
    beside.record(&event).unwrap();
    // SAFETY: bytes of the region, which only this thread and the device use.
    let held = |at: usize| unsafe { host.base().add(at).read() };
    assert_eq!(held(100), 0, "nobody has waited");
    while !event.is_done().unwrap() {}
    let expected = table(5000, 1);
    assert!((0..5000).all(|at| held(100 + at) == expected[at]) && held(99) == 0 && held(5100) == 0);
    let twice = Region::pin(&gpu, &host).unwrap_err().to_string();
    assert!(twice.contains("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"), "{twice}");
    // The memory stays while it is pinned, and can be pinned again afterwards.
    drop(pinned);
    let again = Region::pin(&gpu, &host).unwrap();
    drop(host);
    again.whole().slice(0, 5000).unwrap().copy_from(&there, None).unwrap();
    gpu.synchronise().unwrap();
}

#[test]
fn a_second_stream_follows_and_leads_the_first() {
    let Some(gpu) = gpu("a_second_stream_follows_and_leads_the_first") else { return };
    let other = Stream::new(&gpu).unwrap();
    let [a, b, c] = [(); 3].map(|()| Region::cuda(&gpu, 4096).unwrap().whole());
    a.set(7).unwrap();
    other.follow().unwrap();
    b.copy_from(&a, Some(&other)).unwrap();
    other.synchronise().unwrap();
    other.follow().unwrap();
    c.copy_from(&b, Some(&other)).unwrap();
    other.lead().unwrap();
    let mut got = vec![0; 4096];
    c.read(&mut got).unwrap();
    assert!(got.iter().all(|byte| *byte == 7));
}
