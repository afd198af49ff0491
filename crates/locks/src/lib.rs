//! Spin, queue, blocking and reader-writer locks, generic over the machine.
