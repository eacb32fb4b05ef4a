"""What only sm_90a has: the tensor memory accelerator, warp group products, producer and consumer roles."""
