"""Networks for tests: a rack in a box, a simulation, the demo that uses them, and the self-test."""
