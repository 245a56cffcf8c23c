"""Isotonic regression for any convex loss, with bounds that hold whenever it is stopped.

Where the best value of a block is not a mean, blocks have no sums that say all about them. But
derivatives can be summed: the sign of the sum of the derivatives at a number c says on which side
of c the optimal values lie. The solver asks this for the middle of an interval that holds all
values, and then for the middles of both halves, each with the samples whose values lie there. So it
bisects the values of all samples at once. A round costs one pass over the samples, whatever the
loss. After k rounds each value is known to within range / 2^(k+1), and the map so far is monotone
(Gokcesu & Gokcesu, *Efficient, Anytime Algorithms for Calibration with Isotonic Regression under
Strictly Convex Losses*, section VI).

==============  ===================================================================================
``problem``     what a solver is given: sorted samples, the range of values, when they are close
                enough; and what every solver does
``host``        rounds in which JAX computes the derivatives and a compiled loop splits the cells
                (`streamcal.kernels.threshold_decomposition`)
``device``      the same rounds as one JAX program, for accelerators
``quantiles``   rounds for quantiles, whose best values are labels: exact, and without derivatives
``staircase``   the result: a staircase with bounds
``fit``         the functions that users call
==============  ===================================================================================
"""
