//! Whether unwinding by the tables of a file comes to its end.
//!
//! A call frame may be told by an expression, and expressions may jump. One that jumps back may never end, and the unwinder
//! counts no steps. So tables are read once before they are used, in the way in which the unwinder makes its index of them:
//! entry by entry from the start. Any jump is refused, since one that goes on may lead between two operations, to one that goes
//! back; neither compilers nor linkers write any.

use super::effort::Effort;
use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, EhFrame, EndianSlice, LittleEndian, Operation,
    UnwindExpression, UnwindSection as _,
};
use std::ops::Range;

/// Bytes of a function's entry, which are gone through for each of its frames. Compilers write up to a few thousand.
const LONGEST_ENTRY: usize = 64 << 10;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// Why the tables of a file are not used; none if they are.
pub(super) fn fault(
    eh_frame: &[u8],
    address: u64,
    text: Option<&Range<u64>>,
    effort: &Effort,
) -> Option<&'static str> {
    let bases =
        BaseAddresses::default().set_eh_frame(address).set_text(text.map_or(0, |text| text.start)).set_got(0);
    let mut section = EhFrame::new(eh_frame, LittleEndian);
    section.set_address_size(size_of::<u64>() as u8);
    let mut entries = section.entries(&bases);
    // The unwinder makes no index of tables with an error, and does not use them then.
    while let Ok(Some(entry)) = entries.next() {
        if effort.is_over() {
            return Some("reading them takes too long");
        }
        let CieOrFde::Fde(entry) = entry else { continue };
        let Ok(entry) = entry.parse(EhFrame::cie_from_offset) else { return None };
        if entry.entry_len().saturating_add(entry.cie().entry_len()) > LONGEST_ENTRY {
            return Some("an entry of them is too long");
        }
        for mut instructions in
            [entry.cie().instructions(&section, &bases), entry.instructions(&section, &bases)]
        {
            while let Ok(Some(instruction)) = instructions.next() {
                let expression = match instruction {
                    CallFrameInstruction::DefCfaExpression { expression }
                    | CallFrameInstruction::Expression { expression, .. }
                    | CallFrameInstruction::ValExpression { expression, .. } => expression,
                    _ => continue,
                };
                if jumps(expression, &section, entry.cie().encoding()) {
                    return Some("an expression in them jumps");
                }
            }
        }
    }
    None
}

fn jumps(
    expression: UnwindExpression<usize>,
    section: &EhFrame<Reader<'_>>,
    encoding: gimli::Encoding,
) -> bool {
    let Ok(expression) = expression.get(section) else { return false };
    let mut operations = expression.operations(encoding);
    // An operation that cannot be read ends the evaluation as well.
    while let Ok(Some(operation)) = operations.next() {
        if matches!(operation, Operation::Skip { .. } | Operation::Bra { .. }) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Tables of one function whose frame is told by this expression, with so many operations more that do nothing.
    fn tables(expression: &[u8], more: usize) -> Vec<u8> {
        let entry = |content: &[u8]| {
            let mut padded = content.to_vec();
            padded.resize(content.len().next_multiple_of(8) + 4, 0);
            [&(padded.len() as u32).to_le_bytes(), &padded[..]].concat()
        };
        // Version 1, no augmentation, alignments of 1 and -8, the return address in register 16; the frame is rsp + 8.
        let common = entry(&[0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8]);
        let back = (common.len() as u32 + 4).to_le_bytes();
        let place = [0x1000_u64.to_le_bytes(), 0x100_u64.to_le_bytes()].concat();
        let told = [&[0x0f, expression.len() as u8], expression, &vec![0; more]].concat();
        [common, entry(&[&back[..], &place, &told].concat())].concat()
    }

    #[test]
    fn expressions_that_may_never_end_are_found() {
        let effort = Effort::begin(Duration::from_secs(60));
        let fault = |tables: &[u8]| fault(tables, 0x4000, None, &effort);
        // As linkers write it for the procedure linkage table.
        let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(fault(&tables(&plt, 0)), None);
        // The last one jumps into a constant, which jumps back.
        for endless in [
            &[0x2f, 0xfd, 0xff][..],
            &[0x31, 0x28, 0xfc, 0xff],
            &[0x77, 8, 0x96, 0x2f, 0xfc, 0xff],
            &[0x2f, 1, 0, 0x0c, 0x2f, 0xfd, 0xff, 0],
        ] {
            let found = fault(&tables(endless, 0));
            assert!(found.is_some_and(|fault| fault.contains("jumps")), "{endless:x?}");
        }
        assert!(fault(&tables(&plt, LONGEST_ENTRY)).is_some_and(|fault| fault.contains("too long")));
        for damaged in [&tables(&plt, 0)[..40], &[0xff; 64], &[]] {
            assert_eq!(fault(damaged), None, "the unwinder does not use these either");
        }
    }

    #[test]
    fn the_reading_has_a_deadline() {
        let nothing_left = Effort::begin(Duration::ZERO);
        assert!(fault(&[0; 0], 0, None, &nothing_left).is_none() && nothing_left.is_over());
        let one = tables(&[0x77, 8], 0);
        assert!(fault(&one, 0, None, &nothing_left).is_some_and(|fault| fault.contains("too long")));
        assert!(fault(&one, 0, None, &Effort::begin(Duration::from_secs(600))).is_none());
    }
}
