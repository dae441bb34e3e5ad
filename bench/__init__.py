"""Benchmarks: nothing here is needed to run or test the product."""
