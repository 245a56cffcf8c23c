"""What is timed, one file per part of the package; `make bench` runs all of it.

A class has ``params``, ``param_names`` and ``setup``; the figure and its peer (scipy, river, the
bare model) stand side by side in one class, so that their ratio comes from one run on one machine.
Kernels compile in ``setup``, and a benchmark whose call changes its subject sets ``number = 1``.
Import what is timed in ``setup`` too: an older revision, run with these by `make bench-compare`,
may lack it, and then lacks that one benchmark and not all of them.
"""
