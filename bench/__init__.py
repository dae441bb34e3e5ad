"""Benchmarks and long proofs: nothing here is needed to run or test the product."""
