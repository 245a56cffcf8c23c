"""The command line: one module for each command, and the parts that commands share.

================  ==================================================================================
`main`            the entry point, which also says what is not installed
`app`             the list of commands
`options`         options that several commands have
`calibrate`, `plot`, `thresholds`, `decide`, `report`, `watch`, `demo`   one command each
`rows`            the checks of rows, and what becomes of bad ones
`files`           the checks of file names: no file is written in the place of another
`summary`         mean losses before and after, and what is printed at the end
`sample`          a uniform sample of rows, for pictures
`console`         messages, exit statuses and the progress bar
`checkpoint`      ``calibrate --state``: the run and its store
`kept_output`     ``calibrate --state``: the output file that a store describes
`experiment`      what ``streamcal demo`` runs
================  ==================================================================================

The exit status is 0 if all went well, 1 if the data or the disk is at fault, and 2 if the command
was called wrongly. An error is one line on standard error. Needs the extra ``cli``; packages that
take long to import are imported inside functions, so that ``--help`` is quick.
"""
