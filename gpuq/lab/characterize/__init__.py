"""What a table of measured jobs says: which features matter, what lies between batch sizes, which jobs are alike.

    data -> relevance -> synthetic rows -> clusters -> pairs -> Report -> text, JSON, plots, page

`characterize(Data)` gives the report; `source` reads data from a folder or from finished attempts. The methods are those
of "AI Workloads resource utilization characterization" (github.com/CentaurusInfra/alnair, open-data/gpu-sharing).
Nothing here is used while jobs are served; it needs the `train` extra.
"""

from gpuq.lab.characterize.report import CharacterizationReport, characterize

__all__ = ["CharacterizationReport", "characterize"]
