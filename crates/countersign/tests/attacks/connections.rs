//! Half-open, slow and endless clients, and a storage that runs out of descriptors or space.
