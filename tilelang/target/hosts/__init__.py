"""Hosts of device kernels, generated from the launch records alone: they know no target."""
