"""What a table of measured jobs shows: which features matter, what lies between batch sizes, which jobs are alike.

    data -> relevance -> synthetic rows -> clusters -> pairs -> report -> text, JSON, plots, page

`characterize(Data)` makes the report; `source` reads data from a folder or from finished attempts. The methods are those of "AI
Workloads resource utilization characterization" (github.com/CentaurusInfra/alnair, open-data/gpu-sharing). Nothing here is used
while jobs are served.
"""

from gpuq.lab.characterize.report import CharacterizationReport, characterize

__all__ = ["CharacterizationReport", "characterize"]
