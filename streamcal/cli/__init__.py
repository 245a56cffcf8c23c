"""The command line: one module for each command, and the modules that commands share.

* `main`: the entry point, which also checks for missing packages
* `app`: the list of commands
* `calibrate`, `plot`, `thresholds`, `decide`, `report`, `watch`, `demo`: one command each
* `table_source`, `table_sink`: source and sink of ``calibrate``, whose loop is `durable.run`
* `late_labels`: labels that are delayed
* `report_sources`: what `report` and `watch` are about: a table, or a store
* `options`: options that several commands have
* `rows`: the checks of rows, and what happens to bad ones
* `files`: the checks of file names: no file is written in the place of another
* `summary`: counts of rows, mean losses before and after
* `sample`: a uniform sample of rows, for pictures
* `console`: messages, exit statuses and the progress bar
* `stored_run`: where a run of ``calibrate --store`` begins, and what it commits
* `resumable_output`: the output of such a run
* `demo_table`: what ``streamcal demo`` computes

The exit status is 0 if all went well, 1 if the data or the disk is at fault, and 2 if the command
was called wrongly. An error is one line on standard error. Needs the extra ``cli``; packages that
take long to import are imported inside functions, so that ``--help`` is quick.
"""
