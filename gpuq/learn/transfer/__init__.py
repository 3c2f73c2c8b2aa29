"""From a step time on one type of device to that on a type the job never ran on.

`profile` is the noun: op name -> time. `importers` reads it out of what the profilers of TensorFlow and PyTorch write,
`names` groups op names that are spelt alike, `features` makes a row of numbers of it, `members` hold what was trained,
`carrier` puts them together, `fit` and `network` train (the only place that imports scipy, scikit-learn, TensorFlow),
`ratio` is what remains without a profile: one ratio per pair of types, from kinds that ran on both.
"""
