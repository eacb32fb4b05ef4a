"""What programs for CUDA import beside the language."""
