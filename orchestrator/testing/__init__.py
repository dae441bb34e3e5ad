"""What tests of the core, and of plugins by others, can build on."""
