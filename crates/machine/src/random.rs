//! A generator of numbers whose code is here, so that a seed means the same on every computer and in every version.

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator that starts from this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)] // a generator is no iterator: it does not end
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// An exponentially distributed number whose mean is 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        // Evenly in (0, 1].
        let evenly = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -ln(evenly)
    }
}

/// The natural logarithm of a positive normal number, by nothing but additions, multiplications and divisions, which
/// give the same bits everywhere; the libraries' logarithms differ in the last one. Exact to about 1e-12.
fn ln(x: f64) -> f64 {
    const EXPONENT_BIAS: i64 = 1023;
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64 - EXPONENT_BIAS;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | (EXPONENT_BIAS as u64) << 52);
    // ln m = 2 artanh((m - 1)/(m + 1)), a series in s of at most 1/3.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    let mut term = 23.0;
    while term >= 1.0 {
        sum = sum * square + 1.0 / term;
        term -= 2.0;
    }
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * s * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference_implementation() {
        // The first outputs of Vigna's splitmix64.c for the seed 1234567.
        let mut random = Random::new(1_234_567);
        let numbers = [0; 3].map(|_: u64| random.next());
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    #[cfg(feature = "std")]
    fn the_logarithm_is_one() {
        for x in [1e-300, 2f64.powi(-53), 0.1, 0.5, 0.999_999, 1.0, 1.7, 2.0, 12345.6] {
            assert!((ln(x) - x.ln()).abs() < 1e-11 * x.ln().abs().max(0.1), "{x}");
        }
    }
}
