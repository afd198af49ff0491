//! The key of a state: 128 bits, so that two states with one key are not to be expected in any exploration (among a
//! hundred million states the chance is below 1e-22).

use std::hash::Hasher;

/// A key that is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(u64, u64);

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Key {
    pub(crate) const NEW: Self = Self(FIRST, SECOND);

    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        self.0 = fold(self.0 ^ value, FIRST).wrapping_add(SECOND);
        self.1 = fold(self.1.rotate_left(29).wrapping_add(value), SECOND) ^ value;
    }

    pub(crate) fn add_bits(&mut self, bits: impl Iterator<Item = bool>) {
        let (mut word, mut count) = (1_u64, 0);
        for bit in bits {
            word = word << 1 | u64::from(bit);
            count += 1;
            if count == 63 {
                self.add(word);
                (word, count) = (1, 0);
            }
        }
        self.add(word);
    }

    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    pub(crate) fn value(self) -> u128 {
        u128::from(self.0) << 64 | u128::from(self.1)
    }
}

/// Keys are spread well as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers")
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}
