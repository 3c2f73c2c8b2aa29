"""From a step time on one type of device to that on a type where the job never ran.

`profile` has op name -> time. `importers` reads it from what the profilers of TensorFlow and PyTorch write, `features` groups
op names that are spelt alike and makes a row of numbers of it, `members` are the trained parts, `carrier` combines them.
`fit` trains, and is the only module that imports scikit-learn. `ratio` is what remains without a profile: one ratio per pair of
types, from kinds that ran on both.
"""
