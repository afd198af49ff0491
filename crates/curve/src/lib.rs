//! Curves of throughput against cores, with units and provenance.
