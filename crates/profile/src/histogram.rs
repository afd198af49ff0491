//! Log-linear buckets: four to each power of two, so a bucket's width is at most a quarter of its lower bound.

/// Buckets of a histogram. The last one holds everything from about 2^41 ticks up, many minutes.
pub const BUCKETS: usize = 160;

/// The bucket of a value.
///
/// Values below 4 have a bucket each; above, the two bits after the leading one choose among four.
#[inline]
pub fn bucket(value: u64) -> usize {
    if value < 4 {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros() as usize;
    let quarter = (value >> (exponent - 2)) as usize & 3;
    ((exponent - 1) * 4 + quarter).min(BUCKETS - 1)
}

/// The smallest value of a bucket.
///
/// `bucket` may be [`BUCKETS`], which is where the last bucket would end if it ended.
pub fn lower_bound(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let exponent = bucket / 4 + 1;
    (4 + (bucket as u64 & 3)) << (exponent - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_inside_its_bucket_and_bounds_meet() {
        for value in
            (0..4096).chain((12..41).flat_map(|e| [(1u64 << e) - 1, 1 << e, (1 << e) + 1, 3 << (e - 1)]))
        {
            let b = bucket(value);
            assert!(lower_bound(b) <= value && value < lower_bound(b + 1), "value {value}, bucket {b}");
        }
        for b in 0..BUCKETS {
            assert_eq!(bucket(lower_bound(b)), b);
        }
    }

    #[test]
    fn a_bucket_is_no_wider_than_a_quarter_of_its_start() {
        for b in 4..BUCKETS {
            assert!((lower_bound(b + 1) - lower_bound(b)) * 4 <= lower_bound(b));
        }
    }

    #[test]
    fn nothing_is_too_large() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
