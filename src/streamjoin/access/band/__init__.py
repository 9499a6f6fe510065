"""The index for bands: runs ordered by bins of a grid."""
