"""Networks to test with: a rack in a box, a simulation, the demo over them, and the self-test."""
