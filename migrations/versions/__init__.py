"""One module per revision. A revision is a number of four digits, one higher than the one before; none is ever edited."""
