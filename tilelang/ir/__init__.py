"""The IR vocabulary: TVM's node types under stable names, regions, and small helpers to build and visit."""
