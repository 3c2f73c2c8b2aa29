"""`decide` and the rules behind it. Pure: `now`, forecasts and limits are passed in."""
