"""Peak utilisation and peak memory of a job on a type of device, and bounds that hold as often as they say."""
