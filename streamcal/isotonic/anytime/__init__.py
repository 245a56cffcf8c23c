"""Isotonic regression for any convex loss, with bounds that are valid at any stop.

If the best value of a block is not a mean, no sums describe a block. But derivatives can be summed:
the sign of the sum of the derivatives at a number c shows on which side of c the optimal values
lie. The solver first takes the middle of an interval that contains all values for c. Then it takes
the middles of both halves, each with the samples whose values lie there. So it bisects the values
of all samples at once. A round costs one pass over the samples, for any loss. After k rounds each
value is known to within range / 2^(k+1), and the map so far is monotone (Gokcesu &
Gokcesu, *Efficient, Anytime Algorithms for Calibration with Isotonic Regression under Strictly
Convex Losses*, section VI).

==============  ===================================================================================
``problem``     the input of a solver: sorted samples, the range of values, the tolerance; and the
                interface of solvers
``host``        rounds in which JAX computes the derivatives and a compiled loop splits the cells
                (`streamcal.kernels.threshold_decomposition`, and `iterative_convex_minorant` for
                Newton steps)
``device``      the same rounds as one JAX program, for accelerators
``quantiles``   rounds for quantiles, whose best values are labels: exact, and without derivatives
                (`streamcal.kernels.isotonic_quantiles`)
``staircase``   the result: a staircase with bounds
``fit``         the functions that users call
==============  ===================================================================================
"""
