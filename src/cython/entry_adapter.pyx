# distutils: language = c++
"""Calls a kernel's C entry point with torch tensors: DLPack's exchange table in, registers out.

:class:`EntryAdapter` is the fast path of the ``cython`` backend. It takes what :mod:`tilelang.execution.cython` says about
the kernel, and hands every call that it refuses to ``slow(args, kwargs, error)``.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.pair cimport pair
from libcpp.vector cimport vector


cdef extern from "dlpack/dlpack.h" nogil:
    ctypedef enum DLDeviceType:
        kDLCPU
    ctypedef struct DLDataType:
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct DLDevice:
        int32_t device_type
        int32_t device_id
    ctypedef struct DLTensor:
        void* data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct DLPackExchangeAPI:
        int (*dltensor_from_py_object_no_sync)(void*, DLTensor*)
        int (*current_work_stream)(DLDeviceType, int32_t, void**)


cdef extern from "call_plan.h" namespace "tilelang::cython" nogil:
    int kMaxFloats
    int kMaxIntegers
    cdef cppclass Size:
        int kind
        int64_t value
        vector[pair[int, int64_t]] program
    cdef cppclass TensorPlan:
        vector[DLDataType] dtypes
        vector[Size] shape
        vector[Size] strides
        cbool compact
        uint64_t alignment
    cdef cppclass Binding:
        int tensor
        int axis
        int slot
    cdef cppclass Derived:
        int slot
        Size value
    cdef cppclass CallPlan:
        vector[TensorPlan] tensors
        vector[Binding] bindings
        vector[Derived] derived
        int32_t device_type
        cbool accepts(int, const DLTensor&)
        cbool bind(const DLTensor*, int64_t*)
        cbool sizes_agree(const DLTensor*, const int64_t*)
    cbool evaluate(const Size&, const int64_t*, int64_t*)
    int32_t call_entry(void*, const double*, const int64_t*, size_t)
    uint64_t address(const DLTensor&)
    int64_t elements(const DLTensor&)


cdef extern from "Python.h":
    PyObject* type_of "(PyObject*) Py_TYPE"(PyObject*)


MAX_FLOATS = kMaxFloats
MAX_INTEGERS = kMaxIntegers

cdef enum:
    MOST = 64
    TENSOR = 0
    INTEGER = 1
    UNSIGNED = 2
    FLOAT = 3
    POINTER = 4

cdef DLPackExchangeAPI* exchange = NULL
cdef PyObject* tensor_type = NULL
cdef object kept = None


def use_tensor_type(type_):
    """Names the tensor class, whose DLPack exchange table reads tensors."""
    global exchange, tensor_type, kept
    kept = (type_, type_.__dlpack_c_exchange_api__)
    exchange = <DLPackExchangeAPI*> PyCapsule_GetPointer(kept[1], "dlpack_exchange_api")
    tensor_type = <PyObject*> type_


class Refused(Exception):
    """The fast path does not accept the call."""


cdef struct Input:
    int kind
    int target    # place among the integers or floats of the entry
    int slot      # of a scalar that is also a size: its variable, else -1
    int64_t low
    int64_t high
    uint64_t unsigned_high


cdef DLDataType as_type(triple) except *:
    cdef DLDataType dtype
    dtype.code, dtype.bits, dtype.lanes = triple
    return dtype


cdef Size as_size(description) except *:
    """From ``(kind, value, ((operation, operand), ...))``."""
    cdef Size size
    cdef pair[int, int64_t] step
    size.kind = description[0]
    size.value = description[1]
    for operation, operand in description[2]:
        step.first = operation
        step.second = operand
        size.program.push_back(step)
    return size


cdef TensorPlan as_tensor(description) except *:
    """From ``(dtypes, shape, strides or None, alignment)``."""
    cdef TensorPlan plan
    dtypes, shape, strides, alignment = description
    for triple in dtypes:
        plan.dtypes.push_back(as_type(triple))
    for size in shape:
        plan.shape.push_back(as_size(size))
    plan.compact = strides is None
    for size in strides or ():
        plan.strides.push_back(as_size(size))
    plan.alignment = alignment
    return plan


cdef class EntryAdapter:
    """One kernel.

    Args:
        entry: address of the C function.
        device_type: DLPack device type of all tensors.
        inputs: a tuple an input: ``(kind, target, slot, low, high)``; of a pointer, ``high`` are the bits of the address that are 0.
        tensors: of each tensor input ``(dtypes, shape, strides or None, alignment)``.
        bindings: ``(tensor, axis, slot)`` each.
        derived: ``(slot, size)`` of each size that is computed from those before it.
        outputs: of each allocated tensor ``(target, shape, dtype)``.
        returned: which outputs are returned, as indices into ``outputs``.
        dynamic: ``(slot, target)`` of each size that the entry takes.
        counts: how many integers the entry takes, and how many size variables there are.
        stream_target: place of the stream.
        on_stream: whether the current stream is asked for.
        allocate: ``torch.empty``.
        device: device of the outputs where no tensor is given.
        failure: code -> message error to raise.
        slow: what is done with a call that is refused or fails.
    """

    cdef CallPlan plan
    cdef vector[Input] inputs
    cdef vector[Size] output_sizes
    cdef vector[int] output_ranks
    cdef vector[pair[int, int]] dynamic
    cdef void* entry
    cdef int integer_count
    cdef int variable_count
    cdef int stream_target
    cdef bint on_stream
    cdef tuple outputs
    cdef tuple returned
    cdef object allocate
    cdef object device
    cdef object failure
    cdef object slow

    def __init__(self, *, entry, device_type, inputs, tensors, bindings, derived, outputs, returned, dynamic, counts,
                 stream_target, on_stream, allocate, device, failure, slow):
        cdef Input row
        cdef Binding binding
        cdef Derived computed
        cdef pair[int, int] place
        self.entry = <void*> <uint64_t> entry
        self.plan.device_type = device_type
        for kind, target, slot, low, high in inputs:
            row.kind, row.target, row.slot = kind, target, slot
            row.low = row.high = 0
            row.unsigned_high = 0
            if kind == UNSIGNED or kind == POINTER:
                row.unsigned_high = high
            elif kind == INTEGER:
                row.low, row.high = low, high
            self.inputs.push_back(row)
        for description in tensors:
            self.plan.tensors.push_back(as_tensor(description))
        for tensor, axis, slot in bindings:
            binding.tensor, binding.axis, binding.slot = tensor, axis, slot
            self.plan.bindings.push_back(binding)
        for slot, size in derived:
            computed.slot, computed.value = slot, as_size(size)
            self.plan.derived.push_back(computed)
        for _, shape, _ in outputs:
            self.output_ranks.push_back(len(shape))
            for size in shape:
                self.output_sizes.push_back(as_size(size))
        for slot, target in dynamic:
            place.first, place.second = slot, target
            self.dynamic.push_back(place)
        self.outputs = tuple((target, dtype) for target, _, dtype in outputs)
        self.returned = tuple(returned)
        self.integer_count, self.variable_count = counts
        self.stream_target, self.on_stream = stream_target, on_stream
        self.allocate, self.device, self.failure, self.slow = allocate, device, failure, slow

    def __call__(self, *args, **kwargs):
        try:
            return self.attempt(args, kwargs)
        except Exception as error:
            return self.slow(args, kwargs, error)

    cdef object attempt(self, tuple args, dict kwargs):
        cdef int64_t integers[96]
        cdef double floats[8]
        cdef int64_t variables[64]
        cdef DLTensor tensors[64]
        cdef int tensor_count = 0
        cdef size_t i
        cdef Input* row
        cdef PyObject* value
        cdef void* stream = NULL
        if kwargs or <size_t> len(args) != self.inputs.size():
            raise Refused
        for i in range(8):
            floats[i] = 0.0
        for i in range(96 if self.integer_count > 32 else 32):
            integers[i] = 0
        for i in range(self.inputs.size()):
            row = &self.inputs[i]
            value = <PyObject*> args[i]
            if row.kind == TENSOR:
                if type_of(value) != tensor_type:
                    raise Refused
                if exchange.dltensor_from_py_object_no_sync(value, &tensors[tensor_count]) != 0:
                    raise Refused
                if not self.plan.accepts(tensor_count, tensors[tensor_count]):
                    raise Refused
                # A view that torch negates lazily has strides, but for that of one element.
                if (not self.plan.tensors[tensor_count].compact or elements(tensors[tensor_count]) == 1) and args[i].is_neg():
                    raise Refused
                integers[row.target] = <int64_t> address(tensors[tensor_count])
                tensor_count += 1
            elif row.kind == FLOAT:
                if type(args[i]) is not float:
                    raise Refused
                floats[row.target] = args[i]
            else:
                integers[row.target] = self.whole_number(args[i], row)
                if row.slot >= 0:
                    variables[row.slot] = integers[row.target]
        if not self.plan.bind(tensors, variables) or not self.plan.sizes_agree(tensors, variables):
            raise Refused
        made = self.allocate_outputs(args, tensors, tensor_count, variables, integers) if self.outputs else None
        for i in range(self.dynamic.size()):
            integers[self.dynamic[i].second] = variables[self.dynamic[i].first]
        if self.on_stream:
            if exchange.current_work_stream(<DLDeviceType> self.plan.device_type, tensors[0].device.device_id if tensor_count else 0, &stream):
                raise Refused
            integers[self.stream_target] = <int64_t> stream
        cdef int32_t code
        with nogil:
            code = call_entry(self.entry, floats, integers, self.integer_count)
        if code:
            raise self.failure(code)
        return made

    cdef int64_t whole_number(self, value, Input* row) except? -1:
        cdef int64_t number
        cdef uint64_t natural
        if type(value) is not int:
            raise Refused
        if row.kind == INTEGER:
            number = value  # OverflowError where it does not fit 64 bits
            if not row.low <= number <= row.high:
                raise Refused
            return number
        natural = value
        if row.kind == UNSIGNED and natural > row.unsigned_high:
            raise Refused
        if row.kind == POINTER and natural & row.unsigned_high:
            raise Refused
        return <int64_t> natural

    cdef object allocate_outputs(self, tuple args, DLTensor* tensors, int tensor_count, int64_t* variables, int64_t* integers):
        cdef size_t at = 0
        cdef int64_t size = 0
        cdef int axis
        cdef DLTensor view
        device = self.device
        if self.plan.device_type != 1 and tensor_count:
            device = next(arg.device for arg in args if type(arg) is kept[0])
        made = []
        for index, (target, dtype) in enumerate(self.outputs):
            shape = []
            for axis in range(self.output_ranks[index]):
                if not evaluate(self.output_sizes[at], variables, &size):
                    raise ZeroDivisionError("a size is divided by zero")
                shape.append(size)
                at += 1
            tensor = self.allocate(tuple(shape), dtype=dtype, device=device)
            if exchange.dltensor_from_py_object_no_sync(<void*> <PyObject*> tensor, &view) != 0:
                raise Refused
            if not address(view) and elements(view):  # torch.empty gives such a tensor in a FakeTensorMode
                raise RuntimeError("torch allocated an output without memory")
            integers[<int> target] = <int64_t> address(view)
            made.append(tensor)
        if len(self.returned) == 1:
            return made[self.returned[0]]
        return [made[position] for position in self.returned] if self.returned else None
