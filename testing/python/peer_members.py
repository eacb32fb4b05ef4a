"""Members of the reference package's classes that take other arguments here, or are not there: rows of docs/compatibility.md."""

from __future__ import annotations

from collections.abc import Mapping

_TEMPLATES = ("ElementwiseTemplate", "GEMVTemplate", "GeneralReductionTemplate", "MatmulTemplate")


def _of(owners: str | tuple[str, ...], members: str) -> str:
    """The members of each of the owners."""
    listed = owners.split() if isinstance(owners, str) else owners
    return " ".join(f"{owner}.{member}" for owner in listed for member in members.split())


_ROWS = (
    # differs or refused, how or why, the members; "Class()" is what makes an object of a class
    ("differs", "`out_idx` by position, all else by name", "JITKernel()"),
    ("differs", "is a function", "JITKernel.resource_usage"),
    ("differs", "is made by `kernel.get_profiler()`", "Profiler()"),
    ("differs", "is made by `tilelang.jit`", "JITImpl()"),
    ("differs", "is made by the tuner", "AutotuneResult()"),
    ("differs", "is made by the compiler, with the parameter's name and kind", "KernelParam()"),
    ("differs", "is made by `tilelang.lower`", "CompiledArtifact()"),
    ("differs", "is an annotation only", "Ref()"),
    ("differs", "is made by the emitter", "WGMMADescriptorParams()"),
    ("differs", "is given by `KernelLaunchFrame.Current()`", "KernelLaunchFrame()"),
    ("refused", "a kernel is its indices and sizes", "KernelLaunchFrame.frames KernelLaunchFrame.get_launch_annotation"),
    ("differs", "takes names, and `arch`", " ".join(f"{name}()" for name in _TEMPLATES)),
    ("differs", "is made by the templates", "Hint() TileDevice()"),
    (
        "differs",
        "takes names",
        "ProfileArgs() AutoTuner.set_compile_args AutoTuner.set_profile_args TensorCoreIntrinEmitterWithLadderTransform()"
        " WGMMATensorCoreIntrinEmitter()",
    ),
    (
        "refused",
        "kernels are loaded by the cache, see docs/cache.md",
        "JITKernel.from_database JITKernel.from_tilelang_function Profiler.with_default_adapter AutoTuner.cache_dir"
        " AutoTuner.generate_cache_key AutotuneResult.load_from_disk AutotuneResult.save_to_disk JITImpl.initialize_jit_mode"
        " JITImpl.is_lazy_mode JITImpl.parse_cache_key",
    ),
    (
        "refused",
        "templates are plain data: `recommend_hints` is their use",
        _of(
            _TEMPLATES,
            "get_hardware_aware_configs has_arch initialize_function is_ampere_arch is_cdna_arch is_rdna_arch is_volta_arch"
            " class_attributes output_nodes params_as_dict set_function set_output_nodes",
        )
        + " CUDA.get_avaliable_tensorintrin_shapes TileDevice.get_avaliable_tensorintrin_shapes"
        " Hint.complete_config Hint.from_dict Hint.raxis_order Hint.step Hint.tensorcore_legalization NoRasterization.get_code"
        " Rasterization2DColumn.get_code Rasterization2DColumn.get_device_function Rasterization2DRow.get_code",
    ),
    (
        "refused",
        "settings are attributes: `env.TILELANG_VERBOSE`, see docs/environment.md",
        _of(
            "Environment",
            "get_compile_timeout_seconds get_default_execution_backend get_default_layout_cost_model get_default_target"
            " get_default_verbose get_lower_trace_dir get_lower_trace_mode get_pass_diff_mode get_pass_profile_threshold_ms"
            " is_autotune_cache_disabled is_cache_globally_disabled is_jit_diagnostics_enabled is_light_import"
            " is_pass_profile_enabled is_print_on_compilation_enabled is_running_autodd is_span_enable should_cleanup_temp_files"
            " should_use_kernel_cache_lib_stamp",
        ),
    ),
    ("refused", "the compiler makes them", "KernelParam.from_buffer KernelParam.from_var"),
    ("refused", "the compiler shares out warps", "GemmWarpPolicy.compute_warp_partition GemmWarpPolicy.to_prime_factors"),
    (
        "refused",
        "`mma_store_index_map` is that map",
        _of(
            "TensorCoreIntrinEmitter TensorCoreIntrinEmitterWithLadderTransform WGMMATensorCoreIntrinEmitter",
            "get_store_index_map",
        ),
    ),
    (
        "refused",
        "`T.ptx_wgmma_rs` is the instruction, `wgmma` the product of shared tiles",
        "WGMMATensorCoreIntrinEmitter.wgmma_rs",
    ),
    ("refused", "descriptors are made by the emitter", "WGMMADescriptorParams.k_panel_stride"),
    ("refused", "of sm_100, or of TVM's registry", "SwizzleMode.from_ordinal SwizzleMode.tcgen05_layout_type"),
    (
        "differs",
        "without `rescale_num` and `rescale_den`: a dtype's size is the buffer's matter",
        _of("Layout Fragment", "reshape"),
    ),
    (
        "refused",
        "layouts are of whole tiles",
        _of("Layout Fragment", "map_region_bounds") + " " + _of("Fragment", "expand inverse thread_range"),
    ),
    ("refused", "a parameter of T.Ref is used by its name", "Ref.buffer Ref.load Ref.store"),
)

MEMBERS: Mapping[str, tuple[str, str]] = {name: (kind, why) for kind, why, names in _ROWS for name in names.split()}
"""Member -> differs or refused, and how or why."""
