//! What a lock may ask of the world, and the hardware's answer.
