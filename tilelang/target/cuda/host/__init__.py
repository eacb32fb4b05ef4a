"""Hosts of CUDA kernels, generated from the launch records alone."""
