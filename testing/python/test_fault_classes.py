"""The classes of faults that compilers of tile programs have shown, each with the program here that would show it again."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
CLASSES = {
    # Synchronisation: where threads part
    "a barrier in a loop that threads leave at different times": (
        "target/cuda/test_uniformity.py::test_shared_atomics_in_a_loop_that_threads_leave_at_different_times"
    ),
    "the same, with elements that each thread owns": (
        "target/cuda/test_uniformity.py::test_threads_rewrite_their_own_rows_in_loops_of_different_lengths"
    ),
    "a barrier below a condition that differs through a variable, a loop or a lane number": (
        "target/cuda/test_uniformity.py::test_no_barrier_is_placed_in_divergent_control_flow"
    ),
    "threads of a branch that exchange values": "target/cuda/test_divergence.py::test_threads_of_a_branch_exchange_values",
    "threads of a branch that write where others have read": (
        "target/cuda/test_divergence.py::test_threads_of_a_branch_put_a_result_where_others_have_read"
    ),
    "an array of iterations that makes atomics of the block repeat": (
        "target/test_block_statements.py::test_updates_by_what_the_block_has_computed"
    ),
    "an array of iterations that makes scalars of the block differ": (
        "target/cuda/test_uniformity.py::test_an_array_of_an_iteration_makes_nothing_each_threads_own"
    ),
    "a barrier for every element that a thread fills for itself": (
        "target/cuda/test_thread_map.py::test_threads_that_fill_their_own_elements_need_no_barrier"
    ),
    # Programs that order their threads themselves
    "waits for copies that go with the barriers": (
        "target/cuda/test_manual_order.py::test_manual_synchronisation_keeps_waits_for_copies"
    ),
    "barriers of operators that go with those of statements": (
        "target/cuda/test_manual_order.py::test_manual_synchronisation_keeps_the_barriers_of_operators"
    ),
    "tiles that share memory without barriers between them": (
        "target/cuda/test_manual_order.py::test_tiles_under_manual_synchronisation_share_no_memory"
    ),
    "a scalar of a pipelined loop whose tile is taken for free": (
        "target/cuda/test_sync.py::test_a_scalar_of_a_pipelined_loop_keeps_the_tile_that_it_is_read_from"
    ),
    # Layouts of fragments
    "one row of a fragment, of which one replica is written": "target/cuda/test_layout_programs.py::test_one_row_of_a_fragment",
    "rows of a fragment that a serial loop names": "target/cuda/test_layout_programs.py::test_rows_that_a_serial_loop_names",
    "rows that two serial loops name": "target/cuda/test_layout_programs.py::test_rows_that_two_serial_loops_name",
    "an axis of one iteration": "target/cuda/test_layout_programs.py::test_an_axis_of_one_iteration",
    "a view of a fragment": "target/cuda/test_layout_programs.py::test_a_view_of_a_padded_fragment",
    "two products that no instruction fits": (
        "target/cuda/test_layout_programs.py::test_two_products_that_one_element_a_thread_sums"
    ),
    # Packed, narrow and vector types
    "a fragment of four-bit elements addressed by bytes": (
        "target/cuda/test_packed.py::test_a_register_of_a_fragment_is_half_a_byte"
    ),
    "a reduction of four-bit elements": "target/cuda/test_packed.py::test_sums_of_packed_elements_are_computed_in_words",
    "a product stored to float4 without a conversion": (
        "target/cuda/test_packed.py::test_float4_is_rounded_to_the_nearest_even_code"
    ),
    "strides of four-bit elements": "target/cuda/test_packed.py::test_strides_of_a_compact_packed_tensor_are_those_of_any_tensor",
    "narrow integers beside Python's": "ir/test_promotion.py::test_narrow_integers_shifted_by_python_ints_are_int32",
    "conditions that are inverted by ~": "ir/test_promotion.py::test_inverted_conditions",
    "bools in arithmetic": "ir/test_promotion.py::test_bools_are_numbers_in_arithmetic_and_comparisons",
    "arrays of vectors, and views of them": "target/test_every_target.py::test_arrays_of_vectors",
    # Legal programs that were refused
    "an index in code that cannot run": "transform/test_bounds.py::test_unreachable_code_is_not_checked_and_the_rest_is",
    "an index beside a condition that is evaluated first": (
        "target/test_every_target.py::test_and_and_or_read_a_tile_only_where_python_would"
    ),
    "a persistent loop over one axis": "target/test_every_target.py::test_a_persistent_loop_over_one_axis_gives_the_index",
    "sizes that stand inside arithmetic alone": "jit/test_jit.py::test_a_size_inside_arithmetic_is_given_by_name_or_solved",
    "None for a tensor that only a view names": (
        "target/test_every_target.py::test_a_tensor_that_only_an_unused_view_names_may_be_none"
    ),
    "tables of addresses": "language/test_programs.py::test_tables_of_addresses",
    "a table of addresses at an odd place": (
        "target/cuda/test_alignment.py::test_an_address_from_a_table_of_pointers_is_not_the_tables"
    ),
    "a bound that is shifted in an unrolled loop": "target/cpu/test_shifts.py::test_a_distance_that_doubles",
    # Machines
    "rows that wrap around, in vectors of the CPU": "target/cpu/test_falling_indices.py::test_rows_that_wrap_around",
    "a vector load one lane of which is padding": (
        "simulator/test_memory.py::test_an_unread_padding_lane_does_not_count_as_an_access"
    ),
    "a shared tile of three elements, read by a vector load": (
        "target/test_found_programs.py::test_a_tile_of_three_elements_read_one_by_one"
    ),
    "blocks that wait for all others": "target/cuda/test_threads.py::test_all_blocks_of_the_grid_meet",
    "a loop of vectors in a thread's own code": "target/cuda/test_vectors.py::test_a_vectorised_loop_of_a_thread_moves_vectors",
    "a condition around a copy that keeps it from moving vectors": (
        "target/cuda/test_vectors.py::test_a_condition_that_is_uniform_over_a_vector_is_hoisted_around_it"
    ),
}


@pytest.mark.parametrize("place", CLASSES.values(), ids=CLASSES)
def test_every_fault_class_names_an_existing_test(place):
    file, name = place.split("::")
    defined = {node.name for node in ast.walk(ast.parse((FOLDER / file).read_text())) if isinstance(node, ast.FunctionDef)}
    assert name in defined
