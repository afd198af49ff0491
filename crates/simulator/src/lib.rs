//! A cache-coherent machine of 1 to 1,024 cores, simulated.
