"""A virtual GPU for programs written for torch's ``"cuda"`` device, on a machine without one.

``with virtual_device("h100"):`` (``session.py``) makes ``torch.cuda`` describe that model, keeps tensors of the device ``"cuda"``
in the CPU's memory, and runs kernels of the cuda target on the simulator. Outside of the block torch is as it was.
"""
