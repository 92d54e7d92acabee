"""Fitted coefficients of functions that such backends' languages lack, lowest power first."""

from __future__ import annotations

__all__ = ["LOG1P"]

#: (ln(1 + e) - e) / e^2 in e from 0 to 1; 5e-09 of ln(1 + e)
LOG1P = (
    -0.4999993145465851,
    0.33330512046813965,
    -0.24958586692810059,
    0.19695398211479187,
    -0.15355390310287476,
    0.10680545121431351,
    -0.05766434594988823,
    0.020204531028866768,
    -0.0033184606581926346,
)
