//! Tampering with the folder of a gate: whatever is changed behind its back is detected and located (I7).

pub mod folders;
mod groups;
pub mod lies;
mod messages;
mod readings;

use countersign_engine::storage::disk::Disk;
use countersign_testing::folder::verify;
use folders::{batches, folder, public, segments, with_change};

#[test]
fn an_untouched_folder_verifies_against_every_receipt() {
    let (disk, receipts) = folder();
    assert!(segments(&disk).len() >= 3, "{:?}", segments(&disk));
    let summary = verify(&disk, &public(), &receipts).unwrap();
    assert_eq!((summary.size, summary.evidence), (44, receipts.len()));
}

#[test]
fn a_flipped_bit_anywhere_is_located() {
    let (disk, _) = folder();
    let mut flips = 0;
    for name in segments(&disk) {
        let bytes = disk.contents(&name).unwrap();
        for batch in batches(&bytes) {
            for at in batch.step_by(97) {
                let error = with_change(&disk, &name, |bytes| bytes[at] ^= 1 << (at % 8), &[]).unwrap_err();
                assert!(error.contains(&name), "byte {at} of {name}: {error}");
                flips += 1;
            }
        }
    }
    assert!(flips > 300, "only {flips}");
}

#[test]
fn a_missing_segment_is_named() {
    let (disk, _) = folder();
    let names = segments(&disk);
    for (at, name) in names.iter().enumerate() {
        let bytes = disk.contents(name).unwrap();
        disk.remove(name).unwrap();
        let error = verify(&disk, &public(), &[]).unwrap_err();
        disk.tamper(name, bytes);
        // The first place at which something is missing: the file after the gap, or the end.
        let next = names.get(at + 1).or(names.get(at.wrapping_sub(1))).unwrap();
        assert!(error.contains(next.as_str()) || error.contains("anchor"), "{name}: {error}");
    }
}

#[test]
fn swapped_batches_and_segments_are_located() {
    let (disk, _) = folder();
    let names = segments(&disk);
    let swap = |bytes: &mut Vec<u8>| {
        let found = batches(bytes);
        let (first, second) = (found[0].clone(), found[1].clone());
        let swapped = [&bytes[second.clone()], &bytes[first.clone()]].concat();
        bytes[first.start..second.end].copy_from_slice(&swapped);
    };
    let error = with_change(&disk, &names[1], swap, &[]).unwrap_err();
    assert!(error.contains(&names[1]), "{error}");
    let (one, two) = (disk.contents(&names[0]).unwrap(), disk.contents(&names[1]).unwrap());
    disk.tamper(&names[0], two);
    disk.tamper(&names[1], one);
    let error = verify(&disk, &public(), &[]).unwrap_err();
    assert!(error.contains(&names[0]), "{error}");
}

#[test]
fn a_cut_is_found_by_the_anchor_and_without_it_by_any_later_receipt() {
    let (disk, receipts) = folder();
    let names = segments(&disk);
    let last = names.last().unwrap();
    let found = batches(&disk.contents(last).unwrap());
    let cut = |bytes: &mut Vec<u8>| bytes[found.last().unwrap().start..].fill(0);
    let error = with_change(&disk, last, cut, &[]).unwrap_err();
    assert!(error.contains("anchor") && error.contains("42"), "{error}");
    let error = with_change(&disk, last, |bytes| bytes.truncate(found.last().unwrap().start + 9), &[]).unwrap_err();
    assert!(error.contains(last.as_str()), "{error}");
    // Whoever can cut the log can remove the anchor too. A receipt is out of reach.
    let anchor = disk.list().unwrap().into_iter().find(|name| name.contains("anchor")).unwrap();
    disk.remove(&anchor).unwrap();
    assert!(with_change(&disk, last, cut, &[]).is_ok(), "nothing in the folder can tell");
    let error = with_change(&disk, last, cut, &receipts).unwrap_err();
    assert!(error.contains("a receipt") && error.contains("42"), "{error}");
}
